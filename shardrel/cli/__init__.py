"""The command line: a file a verb. The only place that reads the environment, prints and exits."""

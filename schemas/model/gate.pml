/*
 * The protocol of one gate, for the model checker spin. README.md beside this file explains it.
 *
 * Clients move one register by compare-and-swap, as schemas/SPEC.md#operations says: read the state,
 * decide on it, swap; after a loss read again, look for the own operation in the history, decide again.
 * A client may crash between any two steps and start over under its operation id, and the answer of a
 * swap may be lost. Two publishers move an alias, a governor stages entries and advances a fence, over them or without
 * having staged any, a run renews its permit and admits a checkpoint, a verifier reports, also what is staged.
 *
 * Mutants, each of which must be found: -DBLIND (a swap that ignores its token), -DOPEN_FENCE (an
 * advance that closes no permit), -DNO_LOOK (a retry that does not look for its own success),
 * -DSTALE_REPORT (an admission at older fences), -DANY_PERMIT (a checkpoint under a closed permit), -DEARLY_FENCE (an
 * advance over staged entries that closes no permit, for it was told before).
 */

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef FENCE_END
#define FENCE_END 1
#endif
#define PUBLISHERS 2
#define CLIENTS    4                 /* 0 and 1: publishers, 2: governor, 3: the run */

/* The register: what one swap replaces. */
byte generation = 0;
byte fence = 0;
byte staged = 0;                     /* entries behind the fence; at or below it: none */
byte permit_fence = 0;
bool permit_open = true;
bool head = false;                   /* whether the run's checkpoint is admitted */

/*
 * No two states of a gate have equal bytes, so a token matches exactly when nobody has swapped since
 * its holder read. That is all there is of it here: current[c] falls with every swap of another.
 */
bool current[CLIENTS];

byte effects[PUBLISHERS];            /* the history, as far as a publisher looks */
byte acknowledged = 0;
byte report = 0;                     /* how far the reports on the root reach; each counts at every fence that it passed */
byte faults = FAULTS;
bool done[CLIENTS];

#define all_done (done[0] && done[1] && done[2] && done[3])

#ifdef BLIND
#define token_matches(c) true
#else
#define token_matches(c) current[c]
#endif

/* Everybody else's token is old now; and what holds of every state of a gate holds of the new one. */
inline swapped() {
  current[0] = false; current[1] = false; current[2] = false; current[3] = false;
  assert(!permit_open || permit_fence == fence);
  assert(generation <= PUBLISHERS)
}

/* Before a swap: the client is killed. After it: it is killed, or the answer is lost. It starts over. */
inline may_fail(again) {
  if
  :: faults > 0 -> faults--; goto again
  :: true
  fi
}

proctype publisher(byte me) {
  byte g, f, r;                      /* what was read: generation, fence, and how far the reports reach */
  bool asked = false;                /* whether the intent is written: then a retry looks back */
again:
  atomic {
    g = 0; f = 0; r = 0; current[me] = false;
#ifndef STALE_REPORT
    (report >= fence);               /* refused before: somebody verifies, and the same is asked again */
#endif
    current[me] = true; g = generation; f = fence; r = report;
#ifndef NO_LOOK
    if
    :: asked && effects[me] > 0 -> goto answered
    :: else
    fi
#endif
    asked = true
  };
  atomic {
    may_fail(again);
    if
    :: token_matches(me) ->
       generation = g + 1;           /* the new state is made from the one that was read */
#ifdef BLIND
       fence = f;
#endif
       swapped();
       effects[me]++;
       assert(effects[me] <= 1);     /* one operation, one effect */
       assert(f == fence && r >= fence); /* moved to a root that is verified at the fences of this moment */
       may_fail(again);
       goto answered
    :: else -> goto again            /* lost */
    fi
  };
answered:
  atomic { g = 0; f = 0; r = 0; acknowledged++; done[me] = true }
}

proctype governor() {
  byte f, s;
again:
  atomic {
    f = fence; s = staged; current[2] = true;
    if
    :: f == FENCE_END -> goto over   /* the entries are taken: a repeat is no operation */
    :: else
    fi
  };
  atomic {
    may_fail(again);
    if
    :: token_matches(2) && s <= f -> /* staged: nothing closes */
       staged = f + 1; swapped();
       may_fail(again)
    :: token_matches(2) ->
       assert(f == fence);           /* a fence takes the entry behind it, and never goes back */
       fence = f + 1;
#ifndef OPEN_FENCE
#ifdef EARLY_FENCE
       permit_open = permit_open && s > f;
#else
       permit_open = false;          /* every permit, at once, whatever was staged */
#endif
#endif
       swapped();
       may_fail(again)
    :: else
    fi
  };
  goto again;
over:
  done[2] = true
}

/* One run: it renews its closed permit, and admits a checkpoint under an open one. */
proctype training() {
  bool open;
again:
  atomic {
    open = false; current[3] = false;
    (permit_open || report >= fence); /* permit.recheck-needed: somebody verifies first */
    open = permit_open; current[3] = true;
    if
    :: head -> goto over              /* admitted, by an earlier try or by a helper */
    :: else
    fi
  };
  atomic {
    may_fail(again);
    if
#ifdef ANY_PERMIT
    :: open ->
#else
    :: open && token_matches(3) ->
#endif
       assert(permit_open && permit_fence == fence);
       assert(!head);                 /* a checkpoint follows the head, once */
       head = true; swapped();
       may_fail(again)
    :: !open && token_matches(3) ->
       assert(report >= fence);
       permit_open = true; permit_fence = fence; swapped();
       may_fail(again)
    :: else
    fi
  };
  goto again;
over:
  done[3] = true
}

/* Reports are attached beside each other and only ever reach further. */
proctype verifier() {
  do
  :: atomic { report < fence -> report = fence }
  :: atomic { report >= fence && report < staged -> report = staged }
  :: all_done -> break
  od
}

init {
  atomic {
    run publisher(0); run publisher(1); run governor(); run training(); run verifier()
  };
  all_done;
  /* Each acknowledged move is there, exactly once; nothing is lost. */
  assert(acknowledged == PUBLISHERS && generation == PUBLISHERS);
  assert(fence == FENCE_END && head)
}

ltl everybody_ends { <> all_done }

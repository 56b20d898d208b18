/*
 * Collections and publications on one gate, for the model checker spin. README.md beside this file explains it.
 *
 * There is one object, which two publishers' roots lead to and which a dead one has left there. A publisher pins,
 * creates or finds the object, looks whether a collection condemned it, and ends its publication by a swap that counts
 * only where the boundary is the one it looked up to. It may be killed between any two steps and go on under its pin.
 * The collector reads, writes a plan, retires what nothing leads to by a swap that counts only in the very state it
 * read, deletes, and ends its sweep; it may be killed too. Deletions take whatever is under the name.
 *
 * Mutants, each of which must be found: -DNO_LOOK (a publisher that does not look), -DOLD_LOOK (one whose look is not
 * held against the boundary of the swap), -DANY_STATE (a plan that is taken in a later state), -DOPEN_DOOR (a
 * publication that begins while objects are deleted).
 */

#ifndef COLLECTIONS
#define COLLECTIONS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif

#ifdef ANY_STATE
#define ANY true
#else
#define ANY false
#endif

/* The register: what one swap replaces. */
byte sequence = 1;
byte boundary = 0;                   /* of the newest transition that condemned */
bool sweep = false;
byte pin[2];                         /* sequence at which an open publication began; 0: none */
bool known[2];                       /* roots that the gate holds on to */
byte since = 0;                      /* in the plan: when the object was first seen without a name; 0: it was not */

/* The store. */
bool present = true;

byte faults = FAULTS;
bool done[2];

inline holds() {
  assert(!(known[0] || known[1]) || present)
}

inline may_fail(again) {
  if
  :: faults > 0 -> faults--; goto again
  :: true
  fi
}

proctype publisher(byte me) {
  byte looked;
again:
  atomic {
    looked = 0;
    if
    :: pin[me] > 0                   /* its own, from before it was killed */
#ifdef OPEN_DOOR
    :: pin[me] == 0 -> sequence++; pin[me] = sequence
#else
    :: pin[me] == 0 && !sweep -> sequence++; pin[me] = sequence
#endif
    fi
  };
  atomic { may_fail(again); present = true };
look:
  atomic {
    may_fail(again);
#ifndef NO_LOOK
    if
    :: boundary > pin[me] ->         /* condemned since: dropped, and begun anew */
       sequence++; pin[me] = 0; goto again
    :: else
    fi;
#endif
    looked = boundary
  };
  atomic {
    may_fail(again);
#ifndef OLD_LOOK
    if
    :: looked != boundary -> goto look
    :: else
    fi;
#endif
    sequence++; pin[me] = 0; known[me] = true; holds();
    looked = 0; done[me] = true
  }
}

#define waits_for(p) (pin[p] > 0 && (since == 0 || pin[p] <= since))

proctype collector() {
  byte left = COLLECTIONS;
  byte read;
  bool condemn, note, forget;        /* the plan: the object goes; stays, with the state that it was first seen in; has a name */
  do
  :: left > 0 ->
     left--;
survey:
     atomic {
       condemn = false; note = false; forget = false; read = sequence;
       if
       :: !present
       :: present && (known[0] || known[1]) -> forget = true
       :: present ->                 /* nothing leads to it, or the roots that do are given up */
          if
          :: waits_for(0) || waits_for(1) -> note = !(known[0] || known[1]) && since == 0
          :: else -> condemn = true
          fi
       fi
     };
     atomic {
       may_fail(survey);
       if
#ifndef ANY_STATE
       :: read != sequence           /* another transition came first */
#endif
       :: (read == sequence || ANY) && condemn ->
          if :: !ANY -> known[0] = false; known[1] = false :: ANY fi; since = 0;
          sequence++; boundary = sequence; sweep = true
       :: (read == sequence || ANY) && note -> since = sequence; sequence++
       :: (read == sequence || ANY) && forget -> since = 0
       :: (read == sequence || ANY) && !condemn && !note && !forget
       fi;
       condemn = false; note = false; forget = false; read = 0
     };
sweeping:
     if
     :: sweep ->
        atomic { present = false; holds() };
        atomic {
          if
          :: faults > 0 -> faults--; goto sweeping
          :: true
          fi;
          sequence++; sweep = false
        }
     :: else
     fi
  :: else -> break
  od
}

init {
  atomic { run publisher(0); run publisher(1); run collector() };
  done[0] && done[1]
}

/* How an index is replaced by a larger one while the key is stored, removed and loaded: Spec/Models.md.
 *
 * One key. A process makes one step at a time, and may be killed before each. Records are never overwritten here: a record that is
 * dead counts as overwritten at once. What a define changes is a planted mistake. -DTWICE has two growths,
 * fewer changes and no reader.
 */
#ifndef KILLS
#define KILLS 1
#endif
#define RECORDS 4
/* Added to the number of a new index that is whole: from here on it is the one in force, whoever says so. */
#define WHOLE 10

/* Index files by number: the address of the key's record in each. The first is 0; builders make 1 and 2. */
byte entry[3];
/* In the control file: the index in force, and the one that is being built. */
byte inForce;
byte growing;
byte builder[3];

byte nextAddress;
bit written[RECORDS + 1];
bit dead[RECORDS + 1];

byte word, newRecord, oldRecord;

bool alive[7] = true;
byte kills = KILLS;

/* Addresses are given in the order of changes, so they serve as their numbers; a removal takes one too. */
byte settled, lastRemoval;

#define DIES atomic { kills > 0 -> kills--; alive[me] = false; goto gone }
#define STEP(x) if :: atomic { x } :: DIES fi

/* Ends a growth one way or the other, by one compare-and-swap: what is whole is put in force, and what is not is given up.
 * The builder may be alive: its own compare-and-swap fails then. */
inline settleGrowth() {
  STEP(g = growing);
  if
  :: g == 0
  :: g != 0 && g < WHOLE -> STEP(if :: growing == g -> growing = 0; g = 0 :: else -> g = growing fi)
  :: g >= WHOLE
  fi;
  if
  :: g >= WHOLE ->
    STEP(if :: growing == g -> inForce = g - WHOLE :: else fi);
    STEP(if :: growing == g -> growing = 0 :: else fi)
  :: else
  fi;
  g = 0
}

/* With a new index that lacks the change, or has it alone, no answer would be right for both. So the growth is settled first. */
inline finish() {
  if
  :: newRecord != 0 || oldRecord != 0 ->
#ifndef GROWTH_UNSETTLED
    settleGrowth();
#endif
    if
    :: newRecord != 0 && written[newRecord] -> STEP(if :: entry[inForce] != newRecord -> dead[newRecord] = 1 :: else fi)
    :: else
    fi;
    if
    :: oldRecord != 0 -> STEP(if :: entry[inForce] != oldRecord -> dead[oldRecord] = 1 :: else fi)
    :: else
    fi;
#ifdef NEW_ROLLED_BACK
    STEP(if :: growing != 0 -> entry[growing % WHOLE] = entry[inForce] :: else fi);
#endif
    STEP(oldRecord = 0);
    STEP(newRecord = 0)
  :: else
  fi
}

inline acquire() {
  if
  :: atomic { word == 0 || !alive[word] -> word = me }
  :: DIES
  fi;
  finish()
}

/* Both indexes get the new address, the one that is being built first. What is being built is looked at before what is in force:
 * the other way round, it could be put in force in between and be missed. */
inline setEntries(to) {
  if :: g != 0 -> STEP(entry[g % WHOLE] = to) :: else fi;
  if :: f != g % WHOLE || g == 0 -> STEP(entry[f] = to) :: else fi
}
inline change(to) {
#ifdef FORCE_SEEN_FIRST
  STEP(f = inForce);
  STEP(g = growing);
#else
  STEP(g = growing);
  STEP(f = inForce);
#endif
  o = entry[f];
  if :: o != 0 -> STEP(oldRecord = o) :: else fi;
#ifdef OLD_FIRST
  STEP(entry[f] = to);
  if :: g != 0 -> STEP(entry[g % WHOLE] = to) :: else fi;
#else
  setEntries(to);
#endif
  if :: o != 0 -> STEP(dead[o] = 1) :: else fi;
  STEP(oldRecord = 0)
}

proctype writer(byte me; byte n) {
  byte a, o, f, g;
  do
  :: n > 0 ->
    n--;
    acquire();
    STEP(nextAddress++; a = nextAddress);
    if
    :: true ->
      STEP(newRecord = a);
      STEP(written[a] = 1);
      change(a);
      STEP(newRecord = 0)
    :: true ->
      STEP(lastRemoval = a);
      change(0)
    fi;
    STEP(word = 0; if :: a > settled -> settled = a :: else fi);
    a = 0; o = 0; f = 0; g = 0
  :: n == 0 -> break
  od;
gone: skip
}

/* Builds index number `mine`. */
proctype grower(byte me; byte mine) {
  byte f, g, x;
  STEP(g = growing);
  if
  :: g != 0 && (g >= WHOLE || !alive[builder[g % WHOLE]]) -> settleGrowth()
  :: else
  fi;
  if
  :: atomic { growing == 0 -> builder[mine] = me; growing = mine }
  :: atomic { growing != 0 -> goto gone }
  :: DIES
  fi;
#ifndef NO_BARRIER
  /* Each stripe once: a change that has not seen the growth has ended. */
  acquire();
  STEP(word = 0);
#endif
  STEP(f = inForce);
  /* The walk: it meets a record that is current, and takes its stripe. */
  STEP(x = entry[f]);
  if
  :: x != 0 ->
#ifdef WALKS_WITHOUT_STRIPE
    STEP(entry[mine] = x)
#else
    acquire();
    STEP(x = entry[f]);
    STEP(if :: entry[mine] == 0 -> entry[mine] = x :: else fi);
    STEP(word = 0)
#endif
  :: else
  fi;
#ifdef GIVEN_UP_UNSEEN
  STEP(growing = WHOLE + mine);
#else
  STEP(if :: growing == mine -> growing = WHOLE + mine :: else -> goto gone fi);
#endif
  STEP(if :: growing == WHOLE + mine -> inForce = mine :: else fi);
  STEP(if :: growing == WHOLE + mine -> growing = 0 :: else fi);
gone: skip
}

proctype reader(byte n) {
  byte f, w, s, tries; bool isDone; bit isGarbage;
  do
  :: n > 0 ->
    n--; isDone = false; tries = 0;
    s = settled;
    do
    :: isDone || tries == 3 -> break
    :: !isDone && tries < 3 ->
      tries++;
      f = inForce;
      w = entry[f];
      isGarbage = w != 0 && dead[w];
      if
      :: atomic {
#ifndef FORCE_NOT_SEEN_AGAIN
        inForce == f &&
#endif
        entry[f] == w ->
          isDone = true;
          assert(!isGarbage);
          if
          :: w == 0 -> assert(s == 0 || lastRemoval >= s)
          :: else -> assert(w >= s); if :: w > settled -> settled = w :: else fi
          fi
        }
      :: else
      fi
    od;
    atomic { w = 0; f = 0; s = 0; tries = 0; isGarbage = 0 }
  :: n == 0 -> break
  od
}

init {
  byte me = 6, a, g;
  atomic {
#ifdef TWICE
    run writer(1, 1); run writer(2, 1); run grower(3, 1); run grower(4, 2)
#else
    run writer(1, 2); run writer(2, 1); run grower(3, 1); run reader(2)
#endif
  };
  _nr_pr == 1;
  kills = 0;
  settleGrowth();
  acquire();
  STEP(word = 0);
  assert(growing == 0);
  a = 1;
  do
  :: a <= RECORDS -> assert(!written[a] || dead[a] == (entry[inForce] != a)); a++
  :: a > RECORDS -> break
  od;
  assert(entry[inForce] == 0 || entry[inForce] >= lastRemoval || lastRemoval > settled);
gone: skip
}

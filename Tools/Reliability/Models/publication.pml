/* How a packed record is published, replaced, removed, moved and read: Spec/Models.md.
 *
 * Each process makes one step at a time, and may be killed before each: a step is one atomic access to memory that processes
 * share, or one call that the kernel carries out as a whole. Memory is sequentially consistent here; order.litmus and its
 * neighbours check what weaker memory may do.
 *
 * A chunk holds one record here, so an address is a chunk. What a define changes is a planted mistake. The two configurations:
 *   -DREADS    one key, with a reader, which must never see what is older than what was acknowledged or read before
 *   -DSTRIPES  two keys with a stripe each, without a reader: what a finisher does to a chunk that others reuse meanwhile
 */
#ifdef STRIPES
#define KEYS 2
#define CHUNKS 2
#else
#define KEYS 1
#define CHUNKS 3
#endif
#ifndef KILLS
#define KILLS 1
#endif

#define FREE 0
#define TAKEN 1      /* open or sealed */
#define COLLECTED 2  /* a collector goes through it */

/* The index: the address of a key's record, or 0. */
byte entry[KEYS];

/* The chunk table, and the dead sectors. */
byte state[CHUNKS + 1];
byte owner[CHUNKS + 1];
bit inFlight[CHUNKS + 1];
byte salt[CHUNKS + 1];
bit dead[CHUNKS + 1];

/* The bytes of a record. They stay when their chunk is taken again; only the salt is another one then. */
byte headerSalt[CHUNKS + 1];
byte headerKey[CHUNKS + 1];
byte header[CHUNKS + 1];
byte payload[CHUNKS + 1];

/* The stripe of a key: who holds it, and what has to be finished if that process dies. */
byte word[KEYS];
byte intent[2 * KEYS];
#define newRecord(k) intent[2 * (k)]
#define oldRecord(k) intent[2 * (k) + 1]

/* The collector's lock: one at a time, and the next when that one has ended or died. */
byte collecting;

bool alive[7] = true;
byte kills = KILLS;

/* What callers may expect: changes are numbered as they are made; `settled` is the latest that was acknowledged or read. */
byte lastChange;
byte settled[KEYS];
byte lastRemoval[KEYS];

/* A walk of the chunk finds a record here. The payload's checksum is not looked at. */
#define counts(a) (header[a] != 0 && headerSalt[a] == salt[a])

#ifdef STRIPE_UNSEEN
#define IS_OF_STRIPE(a, k) true
#else
#define IS_OF_STRIPE(a, k) (headerKey[a] == k)
#endif

#define DIES atomic { kills > 0 -> kills--; alive[me] = false; goto gone }
#define STEP(x) if :: atomic { x } :: DIES fi

/* Takes the stripe: from nobody, or from the dead. Then finishes what the dead had begun. */
inline acquire(k) {
  if
  :: atomic { word[k] == 0 || !alive[word[k]] -> word[k] = me }
#ifdef STEALS_FROM_THE_LIVING
  :: atomic { word[k] != 0 -> word[k] = me }
#endif
  :: DIES
  fi;
  finish(k, 2 * k);
  finish(k, 2 * k + 1)
}

/* A record that is named in an intent is dead if the index does not point at it. The bit is looked at first: if it is set, the
 * chunk may be anybody's by now, since a collector frees it without this stripe. If it is not set, and a record of this stripe
 * is there, no collector passes it without this stripe. */
inline finish(k, n) {
  if
  :: intent[n] != 0 ->
#ifndef NO_INTENTS
    f = intent[n];
#ifndef BIT_UNSEEN
    STEP(d = dead[f]);
#endif
    STEP(found = counts(f) && IS_OF_STRIPE(f, k));
    if
    :: found && !d -> if :: atomic { entry[headerKey[f]] != f -> skip }; STEP(dead[f] = 1) :: entry[headerKey[f]] == f :: DIES fi
    :: else
    fi;
    d = 0; found = 0; f = 0;
#endif
    STEP(intent[n] = 0)
  :: else
  fi
}

inline release(k) { STEP(word[k] = 0) }

/* Takes the lowest free chunk and reserves room: nothing in flight in a chunk of the living is collected. No salt of before counts
 * in it: it gets the new one before its bits are cleared, or what lies there would seem alive. */
inline take(a) {
  if
  :: atomic { state[1] == FREE -> a = 1; state[1] = TAKEN; owner[1] = me; inFlight[1] = 1 }
  :: atomic { state[1] != FREE && state[2] == FREE -> a = 2; state[2] = TAKEN; owner[2] = me; inFlight[2] = 1 }
#if CHUNKS == 3
  :: atomic { state[1] != FREE && state[2] != FREE && state[3] == FREE -> a = 3; state[3] = TAKEN; owner[3] = me; inFlight[3] = 1 }
  :: atomic { state[1] != FREE && state[2] != FREE && state[3] != FREE -> a = 0 }
#else
  :: atomic { state[1] != FREE && state[2] != FREE -> a = 0 }
#endif
  :: DIES
  fi;
  if
  :: a != 0 ->
#ifdef BITS_BEFORE_SALT
    STEP(dead[a] = 0);
    STEP(salt[a]++)
#elif defined(SAME_SALT)
    STEP(dead[a] = 0)
#else
    STEP(salt[a]++);
    STEP(dead[a] = 0)
#endif
  :: else
  fi
}

/* pwrite in two halves. */
inline write(k, a, version) {
  STEP(header[a] = version; headerSalt[a] = salt[a]; headerKey[a] = k);
  STEP(payload[a] = version)
}

inline store(k) {
  take(a);
  if
  :: a == 0
  :: else ->
    acquire(k);
    STEP(lastChange++; v = lastChange);
    STEP(newRecord(k) = a);
#ifndef PUBLISHES_FIRST
    write(k, a, v);
#endif
    o = entry[k];
    if :: o != 0 -> STEP(oldRecord(k) = o) :: else fi;
    STEP(assert(entry[k] == o); entry[k] = a);
#ifdef PUBLISHES_FIRST
    write(k, a, v);
#endif
    if :: o != 0 -> STEP(dead[o] = 1); STEP(oldRecord(k) = 0) :: else fi;
    STEP(newRecord(k) = 0);
    STEP(word[k] = 0; if :: v > settled[k] -> settled[k] = v :: else fi);
    STEP(inFlight[a] = 0)
  fi;
  a = 0; o = 0; v = 0
}

/* The entry goes first, then the bit is set. So a record that is marked dead is never one that the index points at. */
inline remove(k) {
  acquire(k);
  o = entry[k];
  if
  :: o == 0
  :: else ->
    STEP(oldRecord(k) = o);
    STEP(lastChange++; v = lastChange; lastRemoval[k] = v);
#ifdef BIT_BEFORE_ENTRY
    STEP(dead[o] = 1);
    STEP(entry[k] = 0);
#else
    STEP(entry[k] = 0);
    STEP(dead[o] = 1);
#endif
    STEP(oldRecord(k) = 0)
  fi;
  STEP(word[k] = 0; if :: v > settled[k] -> settled[k] = v :: else fi);
  o = 0; v = 0
}

/* Stores and removes the key, `n` times in all. */
proctype writer(byte me; byte k; byte n) {
  byte a, o, v, f; bit d, found;
  do
  :: n > 0 -> n--; store(k)
  :: n > 0 -> n--; remove(k)
  :: n == 0 -> break
  od;
gone: skip
}

/* Goes through one chunk, whichever it is. */
proctype collector(byte me) {
  byte a, c, f, k, v; bit d, found, isThere;
  if :: atomic { collecting == 0 || !alive[collecting] -> collecting = me } :: DIES fi;
  if :: c = 1 :: c = 2
#if CHUNKS == 3
  :: c = 3
#endif
  fi;
  if
#ifdef IN_FLIGHT_TOO
  :: atomic { state[c] != FREE -> state[c] = COLLECTED }
#else
  :: atomic { state[c] != FREE && (!inFlight[c] || !alive[owner[c]]) -> state[c] = COLLECTED }
#endif
  :: DIES
  :: else -> goto ended
  fi;
  STEP(isThere = counts(c) && !dead[c]; k = headerKey[c]; v = header[c]);
  if
  :: isThere ->
    acquire(k);
    if
    :: entry[k] == c ->
      take(a);
      if
      :: a == 0 ->
        release(k);
        STEP(state[c] = TAKEN);
        goto ended
      :: else ->
        STEP(newRecord(k) = a);
        write(k, a, v);
        STEP(oldRecord(k) = c);
        STEP(assert(entry[k] == c); entry[k] = a);
        STEP(dead[c] = 1);
        STEP(oldRecord(k) = 0);
        STEP(newRecord(k) = 0);
        release(k);
        STEP(inFlight[a] = 0)
      fi
    :: else ->
      STEP(dead[c] = 1);
      release(k)
    fi
  :: else
  fi;
  STEP(state[c] = FREE);
ended: atomic { collecting = 0 };
gone: skip
}

/* Loads key 0, without a lock. What it returns is at least as new as what was settled when it began. */
proctype reader(byte n) {
  byte w, s, tries, v, p, mine; bool isDone;
  do
  :: n > 0 ->
    n--; isDone = false; tries = 0;
    s = settled[0];
    do
    :: isDone -> break
    :: !isDone && tries == 2 -> break  /* It would wait a little, and try on. */
    :: !isDone && tries < 2 ->
      tries++;
      w = entry[0];
      if
      :: w == 0 ->
        assert(s == 0 || lastRemoval[0] >= s);
        isDone = true
      :: else ->
        mine = salt[w];
        atomic { v = header[w]; if :: headerSalt[w] != mine || headerKey[w] != 0 -> v = 0 :: else fi };
        p = payload[w];
#ifndef NO_SECOND_LOOK
        if :: entry[0] != w -> v = 0 :: else fi;
#endif
        if
        :: atomic { v != 0 && v == p -> assert(v >= s); if :: v > settled[0] -> settled[0] = v :: else fi }; isDone = true
        :: v == 0 || v != p
        fi
      fi
    od;
    atomic { w = 0; v = 0; p = 0; mine = 0; tries = 0; s = 0 }
  :: n == 0 -> break
  od
}

/* At the end: each stripe can be taken, and then the dead bits say what the index says. So a rebuild finds the index again. */
init {
  byte me = 6, a, k, f; bit d, found;
  atomic {
    kills = KILLS;
#ifdef STRIPES
    run writer(1, 0, 1); run writer(2, 0, 1); run writer(3, 1, 1); run collector(4); run collector(5)
#else
    run writer(1, 0, 2); run writer(2, 0, 1); run collector(3); run reader(2)
#endif
  };
  _nr_pr == 1;
  kills = 0;
  do
  :: k < KEYS -> acquire(k); release(k); k++
  :: k == KEYS -> break
  od;
  a = 1;
  do
  :: a <= CHUNKS ->
    assert(!counts(a) || dead[a] == (entry[headerKey[a]] != a));
    a++
  :: a > CHUNKS -> break
  od;
  k = 0;
  do
  :: k < KEYS ->
    assert(entry[k] == 0 || (state[entry[k]] != FREE && counts(entry[k]) && headerKey[entry[k]] == k && header[entry[k]] == payload[entry[k]]));
    k++
  :: k == KEYS -> break
  od;
gone: skip
}

/* How a key moves between a file of its own and a pack as its blobs change size: Spec/Models.md.
 *
 * One key. A process makes one step at a time, and may be killed before each. Packed records are never overwritten here: a record
 * that is dead counts as overwritten at once. What a define changes is a planted mistake.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef WRITES
#define WRITES 1
#endif
#define RECORDS (WRITES + 3)

/* The index: the address of the key's packed record, or 0. It wins over a file. */
byte entry;
/* Which version the file of the key's name holds; 0: there is none. */
byte file;
/* A file may exist. Small stores look for one only then. */
bit mayBeFile;

byte nextVersion;
bit written[RECORDS + 1];
bit dead[RECORDS + 1];

/* Odd while a change is under way. */
byte generation;

byte word, newRecord, oldRecord;
/* What the intents mean besides: a file goes once the entry is published, or the entry goes once the file is. */
bit toPack, toFile;

bool alive[6] = true;
byte kills = KILLS;
byte settled, lastRemoval;

#define DIES atomic { kills > 0 -> kills--; alive[me] = false; goto gone }
#define STEP(x) if :: atomic { x } :: DIES fi

/* Odd from here until the key is released, also for a second change under the same hold. */
inline beginChange() {
  if
  :: !isChanging -> STEP(generation = generation + 1 + generation % 2; isChanging = 1)
  :: else
  fi
}

/* First the new record, then the old one. To a pack: forward if the entry is published, else the file is still the record. To a
 * file: forward if the file is there. What is dead already was settled by the process that died. */
inline finish() {
#ifndef NO_INTENTS
  if
  :: newRecord != 0 && written[newRecord] && !dead[newRecord] ->
    beginChange();
#ifdef UNLINKS_ALWAYS
    if :: toPack -> STEP(file = 0) :: else fi;
#endif
    STEP(x = entry);
    if
    :: x != newRecord -> STEP(dead[newRecord] = 1)
#if defined(KEEPS_FILE) || defined(UNLINKS_ALWAYS)
    :: else
#else
    :: x == newRecord && toPack -> STEP(file = 0)
    :: else
#endif
    fi;
    x = 0
  :: else
  fi;
  STEP(newRecord = 0; toPack = 0);
  if
  :: oldRecord != 0 && !dead[oldRecord] ->
    beginChange();
    STEP(x = file);
    if
    :: toFile && x != 0 ->
#ifdef BACK_TO_PACK
      STEP(file = 0)
#else
      STEP(if :: entry == oldRecord -> entry = 0 :: else fi)
#endif
    :: else
    fi;
    x = 0;
    if
    :: entry != oldRecord -> STEP(dead[oldRecord] = 1)
    :: else
    fi
  :: else
  fi;
#endif
  STEP(newRecord = 0; toPack = 0);
  STEP(oldRecord = 0; toFile = 0)
}

inline acquire() {
  if
  :: atomic { word == 0 || !alive[word] -> word = me }
  :: DIES
  fi;
  if
  :: newRecord != 0 || oldRecord != 0 -> finish()
  :: else
  fi
}

inline beginVersion() { beginChange(); STEP(nextVersion++; v = nextVersion) }
inline endChange() {
  STEP(if :: isChanging -> generation++; isChanging = 0 :: else fi);
  STEP(word = 0; if :: v > settled -> settled = v :: else fi)
}

inline storeSmall() {
  acquire();
  o = entry;
  if
  :: o == 0 && mayBeFile -> STEP(isFile = (file != 0))
  :: else
  fi;
  beginVersion();
  STEP(newRecord = v; toPack = isFile);
  STEP(written[v] = 1);
  if :: o != 0 -> STEP(oldRecord = o) :: else fi;
#ifdef UNLINKS_FIRST
  if :: isFile -> STEP(file = 0) :: else fi;
#endif
  STEP(entry = v);
  if :: isFile -> STEP(file = 0) :: else fi;
  if :: o != 0 -> STEP(dead[o] = 1) :: else fi;
  STEP(oldRecord = 0);
  STEP(newRecord = 0; toPack = 0);
  endChange()
}

inline storeLarge() {
  acquire();
  o = entry;
  if :: o != 0 && mayBeFile -> STEP(file = 0) :: else fi;
#ifndef FILTER_AFTERWARDS
  STEP(mayBeFile = 1);
#endif
  beginVersion();
  if :: o != 0 -> STEP(oldRecord = o; toFile = 1) :: else fi;
#ifdef ENTRY_GOES_FIRST
  if :: o != 0 -> STEP(entry = 0) :: else fi;
#endif
  STEP(file = v);
#ifdef FILTER_AFTERWARDS
  STEP(mayBeFile = 1);
#endif
  if
  :: o != 0 -> STEP(entry = 0); STEP(dead[o] = 1); STEP(oldRecord = 0; toFile = 0)
  :: else
  fi;
  endChange()
}

inline remove() {
  acquire();
  o = entry;
  if :: o != 0 && mayBeFile -> STEP(file = 0) :: else fi;
  beginVersion();
  STEP(lastRemoval = v);
  if
  :: o != 0 -> STEP(oldRecord = o); STEP(entry = 0); STEP(dead[o] = 1); STEP(oldRecord = 0)
  :: else -> STEP(file = 0)
  fi;
  endChange()
}

proctype writer(byte me; byte n) {
  byte o, v, x; bit isFile, isChanging;
  do
  :: n > 0 ->
    n--;
    if :: storeSmall() :: storeLarge() :: remove() fi;
    o = 0; v = 0; isFile = 0
  :: n == 0 -> break
  od;
gone: skip
}

/* The entry, then the file, then the entry again. A file that was found counts if there is no entry still: else the file may not be
 * published yet. A miss counts if the generation is the one of before too: else the key may have moved twice. */
proctype reader(byte n) {
  byte w, x, g, s, tries; bool isDone; bit isGarbage;
  do
  :: n > 0 ->
    n--; isDone = false; tries = 0;
    s = settled;
    do
    :: isDone || tries == 3 -> break
    :: !isDone && tries < 3 ->
      tries++;
#ifndef GENERATION_LATE
      g = generation;
#endif
      w = entry;
      if
      :: w != 0 ->
        isGarbage = dead[w];
        if
        :: atomic { entry == w -> assert(!isGarbage); assert(w >= s); isDone = true; if :: w > settled -> settled = w :: else fi }
        :: else
        fi
      :: else ->
#ifdef GENERATION_LATE
        g = generation;
#endif
        x = file;
        if
        :: x != 0 ->
          if
          :: atomic {
#ifndef FILE_AT_ONCE
            entry == 0 &&
#endif
            true -> assert(x >= s); isDone = true; if :: x > settled -> settled = x :: else fi }
#ifndef FILE_AT_ONCE
          :: else
#endif
          fi
        :: else ->
          /* The entry first, then the generation: two reads, in this order. */
#ifdef MISS_AT_ONCE
          isDone = true;
#else
          w = entry;
#ifdef GENERATION_UNSEEN
          if :: w == 0 -> isDone = true :: else fi;
#else
          if :: w == 0 && generation == g -> isDone = true :: else fi;
#endif
#endif
          assert(!isDone || s == 0 || lastRemoval >= s)
        fi
      fi
    od;
    atomic { w = 0; x = 0; s = 0; g = 0; tries = 0; isGarbage = 0 }
  :: n == 0 -> break
  od
}

init {
  byte me = 5, a, x; bit isChanging;
  atomic { run writer(1, 2); run writer(2, WRITES); run reader(2) };
  _nr_pr == 1;
  kills = 0;
  acquire();
  STEP(word = 0);
  assert(entry == 0 || file == 0);
  assert(file == 0 || mayBeFile);
  a = 1;
  do
  :: a <= RECORDS -> assert(!written[a] || dead[a] == (entry != a)); a++
  :: a > RECORDS -> break
  od;
gone: skip
}

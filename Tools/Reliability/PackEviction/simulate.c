// Simulates which chunks of packs are emptied, and which of their records are moved or evicted. Spec/Eviction.md has
// the results.
//
//   cc -O2 -o simulate simulate.c -lm
//   ./simulate zipf 0.9 [OPTION=VALUE...]     generated requests by Zipf's law with this exponent
//   ./simulate trace FILE SHARE [OPTION=...]  requests from a file of 32-bit keys; the cache has room for that share
//   ./simulate judge                          fails if the rule misses its goals
// All records have the same size. A request for a missing record stores it. Time is counted in requests.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE = UINT32_MAX, CLASSES = 6, MOST_REQUESTS = 4000000, LEVELS = 9 };

static struct {
  double records;     // the number of records that the limit allows
  double keys;        // the number of keys, as a multiple of the limit
  double replaced;    // the share of the hits after which the record is stored again
  double ttl;         // 1: keys have one of five times to live, or none
  double physical;    // the capacity of all chunks, as a multiple of the limit
  double from, to;    // the shares of the limit between which the evicted share rises from 0 to its maximum
  double share;       // the maximum share of the records that a pass evicts, in the order of eviction
  double moved;       // the maximum number of moved records per freed place; the least share that meets it is used
  double age;         // the exponent that determines how much older chunks are preferred
  double batch;       // the share of the chunks that one pass frees
  double classes;     // 1: separate chunks for each class of times to live
  double frequency;   // 1: the order of Spec/Uses.md; 0: the last use alone
} options = {50000, 4, 0.1, 0, 1.15, 0.85, 0.98, 0.8, 0.35, 0.5, 0.02, 1, 1};

static const char *const names[] = {"records", "keys", "replaced", "ttl", "physical", "from", "to", "share", "moved", "age", "batch", "classes", "frequency"};

static uint64_t randomState;
static uint32_t now, keyCount, limit;

static uint64_t randomNumber(void) {
  randomState ^= randomState << 13;
  randomState ^= randomState >> 7;
  return randomState ^= randomState << 17;
}
static double randomShare(void) { return (double)(randomNumber() >> 11) * 0x1p-53; }
static void *zeros(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  if (!memory) abort();
  return memory;
}

// ---- Uses: four counters and four marks for each key, all in one cache line, as in Spec/Uses.md.

static uint64_t (*lines)[8], agedLines;
static uint32_t lineCount, epochStarts[16];

static uint64_t spread(uint32_t key) {
  uint64_t digest = (key + 1) * 0x9E3779B97F4A7C15;
  digest = (digest ^ digest >> 31) * 0xBF58476D1CE4E5B9;
  uint64_t product = (digest ^ digest >> 32) * 0x9E3779B97F4A7C15;
  return product ^ product >> 29;
}
static uint64_t *lineOf(uint64_t place) { return lines[(place >> 32) % lineCount]; }
static int cell(uint64_t place, int word) { return (int)(place >> 4 * word & 15) * 4; }
static uint64_t epoch(void) { return agedLines / (lineCount / 8); }
static int ageOfMark(int mark) { return mark ? ((int)(epoch() % 15) + 1 - mark + 15) % 15 : 99; }

static void ageSome(void) {
  uint64_t before = epoch();
  agedLines += 4;
  if (epoch() != before) epochStarts[epoch() % 15 + 1] = now;
  for (int step = 1; step <= 4; step++) {
    uint64_t *line = lines[(agedLines - step) % lineCount];
    for (int word = 0; word < 4; word++) {
      line[word] = line[word] >> 1 & 0x7777777777777777;
      for (int at = 0; at < 64; at += 4)
        if (ageOfMark(line[4 + word] >> at & 15) > 6) line[4 + word] &= ~(15ull << at);
    }
  }
}
static int useCount(uint32_t key, int *age) {
  uint64_t place = spread(key), *line = lineOf(place);
  int least = 15;
  *age = 0;
  for (int word = 0; word < 4; word++) {
    int count = line[word] >> cell(place, word) & 15, mark = ageOfMark(line[4 + word] >> cell(place, word) & 15);
    if (count < least) least = count;
    if (mark > *age) *age = mark;
  }
  return least;
}
static void use(uint32_t key) {
  int age, least = useCount(key, &age);
  uint64_t place = spread(key), *line = lineOf(place), sum = 0, mark = epoch() % 15 + 1;
  for (int word = 0; word < 4; word++) {
    int at = cell(place, word);
    if ((int)(line[word] >> at & 15) == least && least < 15) line[word] += 1ull << at;
    sum += line[word];
    line[4 + word] = (line[4 + word] & ~(15ull << at)) | mark << at;
  }
  if (least < 15 && sum * 0x9E3779B97F4A7C15 >> 58 == 0) ageSome();
}

// ---- Records and chunks.

static uint32_t *slotOf, *updated, *expires;                        // by key
static uint32_t *keyIn;                                             // by slot
static float *distance;                                             // by slot: the distance in the order of eviction
static struct { enum { FREE, OPEN, SEALED } state; int class; uint32_t filled, live, taken, latestExpiry; } *chunks;
static uint32_t chunkSize, chunkCount, freeChunks, takenChunks, liveRecords, openChunks[2 * CLASSES];
static uint64_t stored, moved, passes;

static int ttlClass(uint32_t key) { return options.ttl ? (key * 2654435761u >> 16) % CLASSES : CLASSES - 1; }
static uint32_t ttlOf(uint32_t key) { return (uint32_t[]){20000, 60000, 200000, 600000, 2000000, 0}[ttlClass(key)]; }
static int chunkClass(uint32_t key) { return options.classes ? ttlClass(key) : CLASSES - 1; }
static bool isExpired(uint32_t key) { return expires[key] && expires[key] <= now; }

static uint32_t takeChunk(int class) {
  for (uint32_t chunk = 0; chunk < chunkCount; chunk++)
    if (chunks[chunk].state == FREE) {
      chunks[chunk].state = OPEN;
      chunks[chunk].class = class;
      chunks[chunk].taken = ++takenChunks;
      freeChunks--;
      return chunk;
    }
  puts("There is no free chunk.");
  exit(1);
}
static void place(uint32_t key, int class) {
  uint32_t chunk = openChunks[class];
  if (chunk == NOWHERE || chunks[chunk].filled == chunkSize) {
    if (chunk != NOWHERE) chunks[chunk].state = SEALED;
    chunk = openChunks[class] = takeChunk(class);
  }
  slotOf[key] = chunk * chunkSize + chunks[chunk].filled++;
  keyIn[slotOf[key]] = key;
  chunks[chunk].live++;
  uint32_t expiry = expires[key] ? expires[key] : NOWHERE;
  if (expiry > chunks[chunk].latestExpiry) chunks[chunk].latestExpiry = expiry;
}
static void leave(uint32_t key) {
  chunks[slotOf[key] / chunkSize].live--;
  keyIn[slotOf[key]] = NOWHERE;
  slotOf[key] = NOWHERE;
}

// ---- A pass. The order: the time since the last use divided by the square of the uses, or times eight if used once.

static float distanceOf(uint32_t key) {
  if (isExpired(key)) return INFINITY;
  uint32_t last = updated[key];
  int age, count = useCount(key, &age);
  if (!options.frequency) return (float)(now - last);
  if (age < 7 && (uint64_t)age <= epoch() && epochStarts[(epoch() - age) % 15 + 1] > last) last = epochStarts[(epoch() - age) % 15 + 1];
  float span = (float)(now - last) + 1;
  return count > 1 ? span / (float)(count * count) : span * 8;
}
static int ascending(const void *a, const void *b) { return (*(float *)a > *(float *)b) - (*(float *)a < *(float *)b); }

// Moves the records that are not evicted to a chunk of their class that contains only moved records.
static void empty(uint32_t chunk, float threshold) {
  for (uint32_t slot = chunk * chunkSize; slot < chunk * chunkSize + chunks[chunk].filled; slot++) {
    uint32_t key = keyIn[slot];
    if (key == NOWHERE) continue;
    leave(key);
    if (distance[slot] > threshold || distance[slot] == INFINITY) {
      liveRecords--;
    } else {
      place(key, CLASSES + chunks[chunk].class % CLASSES);
      moved++;
    }
  }
  memset(&chunks[chunk], 0, sizeof chunks[chunk]);
  freeChunks++;
}

static void pass(uint32_t reserve) {
  static float *sorted;
  static struct Choice { float score; uint32_t chunk, stay; } *choices;
  static uint32_t room;
  if (room < chunkCount * chunkSize) {
    room = chunkCount * chunkSize;
    sorted = realloc(sorted, room * sizeof *sorted);
    choices = realloc(choices, room * sizeof *choices);
  }
  passes++;
  for (uint32_t chunk = 0; chunk < chunkCount; chunk++)
    if (chunks[chunk].state == SEALED && (chunks[chunk].live == 0 || chunks[chunk].latestExpiry <= now)) {
      for (uint32_t slot = chunk * chunkSize; slot < (chunk + 1) * chunkSize; slot++) distance[slot] = INFINITY;
      empty(chunk, INFINITY);
    }
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < chunkCount * chunkSize; slot++)
    if (keyIn[slot] != NOWHERE && (distance[slot] = distanceOf(keyIn[slot])) != INFINITY) sorted[count++] = distance[slot];
  qsort(sorted, count, sizeof *sorted, ascending);

  double fullness = (liveRecords / (double)limit - options.from) / (options.to - options.from);
  double most = options.share * fmin(fmax(fullness, 0), 1);
  uint32_t wanted = reserve + (uint32_t)fmax(1, chunkCount * options.batch);

  double excess = liveRecords - limit * options.to;

  // Finds the least share that frees enough without moving too many records, or else takes the greatest.
  float threshold = INFINITY;
  uint32_t chosen = 0;
  for (int level = 0; level < LEVELS; level++) {
    double share = most * level / (LEVELS - 1);
    threshold = share > 0 && count ? sorted[(uint32_t)((1 - share) * (count - 1))] : INFINITY;
    uint32_t candidates = 0;
    for (uint32_t chunk = 0; chunk < chunkCount; chunk++) {
      if (chunks[chunk].state != SEALED) continue;
      uint32_t stay = 0;
      for (uint32_t slot = chunk * chunkSize; slot < (chunk + 1) * chunkSize; slot++)
        stay += keyIn[slot] != NOWHERE && distance[slot] <= threshold && distance[slot] != INFINITY;
      if (stay == chunkSize) continue;
      double age = pow(takenChunks - chunks[chunk].taken + 1, options.age);
      choices[candidates++] = (struct Choice){(float)(stay / ((double)(chunkSize - stay) * age)), chunk, stay};
    }
    qsort(choices, candidates, sizeof *choices, ascending);
    double stays = 0, room = (double)freeChunks * chunkSize, goes = 0;
    for (chosen = 0; chosen < candidates && (room < wanted * chunkSize || goes < excess); chosen++) {
      struct Choice *choice = &choices[chosen];
      stays += choice->stay, room += chunkSize - choice->stay, goes += chunks[choice->chunk].live - choice->stay;
    }
    if (goes >= excess && stays <= options.moved * (room - freeChunks * chunkSize)) break;
  }
  for (uint32_t index = 0; index < chosen; index++) empty(choices[index].chunk, threshold);
}

// ---- A run, and the same requests to an exact LRU.

static uint32_t *trace, traceLength, *shuffled;
static double *cumulated;

static uint32_t request(uint32_t number) {
  if (trace) return trace[number];
  double share = randomShare();
  uint32_t low = 0, high = keyCount - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cumulated[middle] < share) low = middle + 1;
    else high = middle;
  }
  return shuffled[low];
}
static void generate(double exponent) {
  keyCount = (uint32_t)(limit * options.keys);
  cumulated = zeros(keyCount, sizeof *cumulated);
  shuffled = zeros(keyCount, sizeof *shuffled);
  randomState = 88172645463325252;
  double sum = 0;
  for (uint32_t key = 0; key < keyCount; key++) {
    cumulated[key] = sum += pow(key + 1, -exponent);
    uint32_t other = (uint32_t)(randomNumber() % (key + 1));
    shuffled[key] = shuffled[other];
    shuffled[other] = key;
  }
  for (uint32_t key = 0; key < keyCount; key++) cumulated[key] /= sum;
}
static uint32_t requestCount(void) { return trace ? traceLength : limit * 20; }
static uint32_t firstCounted(void) { return trace ? 0 : requestCount() / 2; }

struct Result { double amplification, hits, live, chunksPerLive; };

static struct Result run(void) {
  const uint32_t reserve = 3;
  chunkSize = limit / 195 > 4 ? limit / 195 : 4;
  chunkCount = (uint32_t)fmax(limit * options.physical / chunkSize + 1, 12);
  slotOf = zeros(keyCount, 4), updated = zeros(keyCount, 4), expires = zeros(keyCount, 4);
  keyIn = zeros(chunkCount * chunkSize, 4), distance = zeros(chunkCount * chunkSize, 4), chunks = zeros(chunkCount, sizeof *chunks);
  memset(slotOf, 255, keyCount * 4ul), memset(keyIn, 255, chunkCount * chunkSize * 4ul), memset(openChunks, 255, sizeof openChunks);
  for (lineCount = 64; lineCount * 2 < limit;) lineCount *= 2;
  lines = zeros(lineCount, sizeof *lines), agedLines = 0, memset(epochStarts, 0, sizeof epochStarts);
  freeChunks = chunkCount, takenChunks = liveRecords = now = 0, stored = moved = passes = 0, randomState = 88172645463325252;
  double hits = 0, lives = 0, used = 0;
  for (uint32_t number = 0; number < requestCount(); number++) {
    if (number == firstCounted()) hits = lives = used = 0, stored = moved = passes = 0;
    uint32_t key = request(number);
    now++;
    use(key);
    bool isHit = slotOf[key] != NOWHERE && !isExpired(key), stores = !isHit;
    hits += isHit;
    if (isHit && options.replaced > 0 && randomShare() < options.replaced) stores = true;
    else if (isHit && !ttlOf(key)) updated[key] = now;
    if (stores) {
      if (slotOf[key] != NOWHERE) leave(key);
      else liveRecords++;
      updated[key] = now;
      expires[key] = ttlOf(key) ? now + ttlOf(key) : 0;
      place(key, chunkClass(key));
      stored++;
      if (freeChunks < reserve || liveRecords > limit) pass(reserve);
    }
    lives += liveRecords, used += chunkCount - freeChunks;
  }
  double counted = requestCount() - firstCounted();
  return (struct Result){(double)(stored + moved) / (double)stored, hits / counted, lives / counted / limit, used * chunkSize / lives};
}

static double hitsOfLRU(void) {
  uint32_t *before = zeros(keyCount + 1, 4), *after = zeros(keyCount + 1, 4), head = keyCount, count = 0;
  uint32_t *expiry = zeros(keyCount, 4);
  bool *isThere = zeros(keyCount, 1);
  double hits = 0;
  before[head] = after[head] = head, now = 0, randomState = 88172645463325252;
#define TAKE_OUT(key) (after[before[key]] = after[key], before[after[key]] = before[key])
  for (uint32_t number = 0; number < requestCount(); number++) {
    if (number == firstCounted()) hits = 0;
    uint32_t key = request(number);
    now++;
    if (options.ttl && now % 20000 == 0)
      for (uint32_t other = 0; other < keyCount; other++)
        if (isThere[other] && expiry[other] && expiry[other] <= now) TAKE_OUT(other), isThere[other] = false, count--;
    bool isHit = isThere[key] && !(expiry[key] && expiry[key] <= now), stores = !isHit;
    hits += isHit;
    if (isHit && options.replaced > 0 && randomShare() < options.replaced) stores = true;
    if (stores) expiry[key] = ttlOf(key) ? now + ttlOf(key) : 0;
    if (isThere[key]) TAKE_OUT(key);
    else isThere[key] = true, count++;
    after[key] = after[head], before[key] = head, before[after[head]] = key, after[head] = key;
    if (count > limit) {
      uint32_t last = before[head];
      TAKE_OUT(last), isThere[last] = false, count--;
    }
  }
  return hits / (requestCount() - firstCounted());
}

static struct Result report(const char *what) {
  struct Result result = run();
  double lru = hitsOfLRU();
  printf("%-34s WA %.2f  hits %.3f, LRU %.3f  live %.2f of the limit, chunks %.2f of live  %llu passes\n", what, result.amplification,
         result.hits, lru, result.live, result.chunksPerLive, (unsigned long long)passes);
  result.hits -= lru;
  return result;
}

// Returns whether the rule reaches its goals. A packed record of 128 bytes takes 1.11 bytes per byte while it is new.
static bool judge(const char *what, double exponent, double replaced, double ttl, double mostAmplification) {
  options.replaced = replaced, options.ttl = ttl;
  limit = (uint32_t)options.records;
  generate(exponent);
  struct Result result = report(what);
  bool isGood = result.amplification <= mostAmplification && result.hits >= -0.01 && result.chunksPerLive * 1.11 <= 1.45;
  if (!isGood) printf("  MISSED: WA %.2f, a point below LRU, 1.45 bytes a byte\n", mostAmplification);
  return isGood;
}

int main(int argumentCount, char **arguments) {
  int first = argumentCount > 1 && !strcmp(arguments[1], "judge") ? 2 : argumentCount > 1 && !strcmp(arguments[1], "zipf") ? 3 : 4;
  for (int index = first; index < argumentCount; index++)
    for (int name = 0; name < (int)(sizeof names / sizeof *names); name++) {
      size_t length = strlen(names[name]);
      if (!strncmp(arguments[index], names[name], length) && arguments[index][length] == '=')
        ((double *)&options)[name] = atof(arguments[index] + length + 1);
    }
  limit = (uint32_t)options.records;
  if (first == 2) {
    bool isGood = judge("Zipf 0.9", 0.9, 0.1, 0, 1.6);
    isGood &= judge("Zipf 0.7", 0.7, 0.1, 0, 1.6);
    isGood &= judge("Zipf 0.9, times to live", 0.9, 0.1, 1, 1.2);
    isGood &= judge("Zipf 0.7, times to live", 0.7, 0.1, 1, 1.2);
    return isGood ? 0 : 1;
  }
  if (argumentCount > 2 && first == 3) {
    generate(atof(arguments[2]));
    report("generated");
    return 0;
  }
  FILE *file = argumentCount > 3 ? fopen(arguments[2], "rb") : NULL;
  if (!file) return puts("simulate zipf EXPONENT | trace FILE SHARE | judge, then OPTION=VALUE"), 64;
  trace = zeros(MOST_REQUESTS, 4);
  traceLength = (uint32_t)fread(trace, 4, MOST_REQUESTS, file);
  for (uint32_t number = 0; number < traceLength; number++)
    if (trace[number] >= keyCount) keyCount = trace[number] + 1;
  limit = (uint32_t)(keyCount * atof(arguments[3]));
  options.replaced = 0, options.ttl = 0;
  report(strrchr(arguments[2], '/') ? strrchr(arguments[2], '/') + 1 : arguments[2]);
  return 0;
}

// The LRU cache that a C++ programmer writes: unordered_map, list and mutex.
#ifndef LRU_H
#define LRU_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lru_cache lru_cache;
/// Keys as std::string, made before anything is measured.
typedef struct lru_keys lru_keys;

lru_cache *lru_create(size_t capacity);
void lru_destroy(lru_cache *cache);
/// Keys of `length` bytes each, one behind the other in `text`.
lru_keys *lru_make_keys(const char *text, size_t length, size_t count);
void lru_destroy_keys(lru_keys *keys);
/// Sets a new value for each key.
void lru_fill(lru_cache *cache, const lru_keys *keys);
/// Asks for the keys at these positions, and sums up what is in the values found.
uint64_t lru_get(lru_cache *cache, const lru_keys *keys, const uint32_t *positions, size_t count);

#ifdef __cplusplus
}
#endif
#endif

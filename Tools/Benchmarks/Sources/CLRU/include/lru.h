// The LRU cache that a C++ programmer writes: unordered_map, list and mutex.
#ifndef LRU_H
#define LRU_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lru_cache lru_cache;
/// Keys as std::string, which are created before a measurement begins.
typedef struct lru_keys lru_keys;

lru_cache *lru_create(size_t capacity);
void lru_destroy(lru_cache *cache);
/// Creates keys of `length` bytes each, which `text` contains in succession.
lru_keys *lru_make_keys(const char *text, size_t length, size_t count);
void lru_destroy_keys(lru_keys *keys);
/// Stores a new value for each key.
void lru_fill(lru_cache *cache, const lru_keys *keys);
/// Requests the keys at these positions, and returns the sum of the numbers in the values found.
uint64_t lru_get(lru_cache *cache, const lru_keys *keys, const uint32_t *positions, size_t count);

#ifdef __cplusplus
}
#endif
#endif

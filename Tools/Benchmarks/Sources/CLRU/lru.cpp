#include "include/lru.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

/// A value that the cache shares with its callers.
struct Value {
  uint64_t number;
};

class Cache {
 public:
  explicit Cache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const Value> get(const std::string &key) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->second;
  }

  void set(const std::string &key, std::shared_ptr<const Value> value) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = index_.find(key);
    if (found != index_.end()) {
      found->second->second = std::move(value);
      entries_.splice(entries_.begin(), entries_, found->second);
      return;
    }
    entries_.emplace_front(key, std::move(value));
    index_.emplace(key, entries_.begin());
    if (entries_.size() <= capacity_) return;
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Value>>;
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
  size_t capacity_;
};

}  // namespace

struct lru_cache {
  explicit lru_cache(size_t capacity) : cache(capacity) {}
  Cache cache;
};

struct lru_keys {
  std::vector<std::string> keys;
};

lru_cache *lru_create(size_t capacity) { return new lru_cache(capacity); }

void lru_destroy(lru_cache *cache) { delete cache; }

lru_keys *lru_make_keys(const char *text, size_t length, size_t count) {
  auto *keys = new lru_keys;
  keys->keys.reserve(count);
  for (size_t index = 0; index < count; index++) keys->keys.emplace_back(text + index * length, length);
  return keys;
}

void lru_destroy_keys(lru_keys *keys) { delete keys; }

void lru_fill(lru_cache *cache, const lru_keys *keys) {
  uint64_t number = 0;
  for (const auto &key : keys->keys) cache->cache.set(key, std::make_shared<const Value>(Value{number++}));
}

uint64_t lru_get(lru_cache *cache, const lru_keys *keys, const uint32_t *positions, size_t count) {
  uint64_t sum = 0;
  for (size_t index = 0; index < count; index++) {
    auto value = cache->cache.get(keys->keys[positions[index]]);
    if (value) sum += value->number;
  }
  return sum;
}

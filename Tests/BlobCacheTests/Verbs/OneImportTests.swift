import BlobCache
import Testing

// One import provides all names that the articles use, so this file imports no other module of the library.

@Suite struct OneImportTests {
  @Test func theCacheNamesItsKeysTimesAndLoggers() throws {
    var configuration = BlobCache.Configuration()
    configuration.store.limits.size = 1 << 30
    configuration.store.layout.naming = .sha256
    configuration.store.logger = Logger(label: "covers")
    configuration.store.durability = BlobStore.Durability.full
    configuration.memory?.policy = EvictionPolicy.lru
    #expect(configuration.store.logger.label == "covers")
    #expect(FilePath("/var/cache").appending("covers").string == "/var/cache/covers")
    #expect(UnixTime(seconds: 1) < UnixTime(seconds: 2))
    #expect(BlobKey("album/42").hasPrefix("album/"))
  }

  @Test func theMemoryCacheIsThere() {
    let values = MemoryCache<BlobKey, Int>(MemoryCacheConfiguration(limits: MemoryCacheLimits(count: 2)))
    values.setValue(1, forKey: "a")
    #expect(values.value(forKey: "a") == 1)
  }

  @Test func stringsBecomeKeys() {
    let names = ["a", "b"]
    #expect(names.map(BlobKey.init) == ["a", "b"])
  }
}

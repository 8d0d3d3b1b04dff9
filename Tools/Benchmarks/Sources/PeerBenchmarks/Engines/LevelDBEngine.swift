#if LEVELDB
  import CRawFiles
  import CLevelDB
  import Foundation
  import SystemPackage
  import Workbench

  /// LevelDB with its default options: an unsynced log, and compression, which has no effect on the payloads.
  ///
  /// Unchecked: a database is thread-safe, and its options do not change.
  final class LevelDBEngine: Engine, Session, @unchecked Sendable {
    private let options, reading, writing, database: OpaquePointer

    init(directory: FilePath) throws {
      options = leveldb_options_create()
      leveldb_options_set_create_if_missing(options, 1)
      reading = leveldb_readoptions_create()
      writing = leveldb_writeoptions_create()
      var error: UnsafeMutablePointer<CChar>?
      let opened = leveldb_open(options, directory.string, &error)
      try Self.check(error, "open")
      guard let opened else { throw BenchmarkFailure("LevelDB has opened nothing") }
      database = opened
    }

    deinit {
      leveldb_close(database)
      leveldb_readoptions_destroy(reading)
      leveldb_writeoptions_destroy(writing)
      leveldb_options_destroy(options)
    }

    func session() -> any Session { self }

    func store(_ entry: Entry) throws {
      var error: UnsafeMutablePointer<CChar>?
      Self.withKey(entry) { key, count in
        entry.payload.bytes.withUnsafeBytes { payload in
          leveldb_put(
            database, writing, key, count, payload.baseAddress?.assumingMemoryBound(to: CChar.self), payload.count,
            &error)
        }
      }
      try Self.check(error, "put")
    }

    func load(_ entry: Entry) throws -> Data? {
      var error: UnsafeMutablePointer<CChar>?
      var size = 0
      let value = Self.withKey(entry) { key, count in leveldb_get(database, reading, key, count, &size, &error) }
      try Self.check(error, "get")
      return value.map { Data(bytesNoCopy: $0, count: size, deallocator: .free) }
    }

    func remove(_ entry: Entry) throws {
      var error: UnsafeMutablePointer<CChar>?
      Self.withKey(entry) { key, count in leveldb_delete(database, writing, key, count, &error) }
      try Self.check(error, "delete")
    }

    private static func withKey<Answer>(_ entry: Entry, _ body: (UnsafePointer<CChar>?, Int) -> Answer) -> Answer {
      entry.withKeyBytes { body($0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count) }
    }

    private static func check(_ error: UnsafeMutablePointer<CChar>?, _ what: String) throws {
      guard let error else { return }
      defer { leveldb_free(error) }
      throw BenchmarkFailure("LevelDB: \(what): \(String(cString: error))")
    }
  }
#endif

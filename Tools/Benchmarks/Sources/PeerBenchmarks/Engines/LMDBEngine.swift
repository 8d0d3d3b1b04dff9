#if LMDB
  import CLMDB
  import CRawFiles
  import Foundation
  import SystemPackage
  import Workbench

  /// LMDB without syncs, with one transaction per operation.
  ///
  /// Loads copy, as in the other engines, because LMDB owns the returned bytes until the transaction ends.
  ///
  /// Unchecked: an environment is thread-safe.
  final class LMDBEngine: Engine, Session, @unchecked Sendable {
    /// Reserves addresses, not memory, for the maximum size of the database.
    private static let mapSize = 16 << 30

    private let environment: OpaquePointer
    private let table: MDB_dbi

    init(directory: FilePath) throws {
      try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: true)
      var created: OpaquePointer?
      try Self.check(mdb_env_create(&created), "create")
      guard let created else { throw BenchmarkFailure("LMDB has made nothing") }
      environment = created
      try Self.check(mdb_env_set_mapsize(created, Self.mapSize), "set the size")
      try Self.check(mdb_env_open(created, directory.string, UInt32(MDB_NOSYNC), 0o600), "open")
      var table = MDB_dbi()
      try Self.transaction(created, isReading: false) { transaction in
        try Self.check(mdb_dbi_open(transaction, nil, 0, &table), "open the table")
      }
      self.table = table
    }

    deinit { mdb_env_close(environment) }

    func session() -> any Session { self }

    func store(_ entry: Entry) throws {
      try entry.payload.bytes.withUnsafeBytes { payload in
        var value = MDB_val(mv_size: payload.count, mv_data: UnsafeMutableRawPointer(mutating: payload.baseAddress))
        try change(entry) { mdb_put($0, table, $1, &value, 0) }
      }
    }

    func load(_ entry: Entry) throws -> Data? {
      try Self.transaction(environment, isReading: true) { transaction in
        try Self.withKey(entry) { key in
          var value = MDB_val()
          let result = mdb_get(transaction, table, key, &value)
          if result == MDB_NOTFOUND { return nil }
          try Self.check(result, "get")
          return Data(bytes: value.mv_data, count: value.mv_size)
        }
      }
    }

    func remove(_ entry: Entry) throws { try change(entry) { mdb_del($0, table, $1, nil) } }

    private func change(
      _ entry: Entry, _ body: (OpaquePointer, UnsafeMutablePointer<MDB_val>) -> CInt
    ) throws {
      try Self.transaction(environment, isReading: false) { transaction in
        try Self.withKey(entry) { key in try Self.check(body(transaction, key), "change") }
      }
    }

    private static func transaction<Answer>(
      _ environment: OpaquePointer, isReading: Bool, _ body: (OpaquePointer) throws -> Answer
    ) throws -> Answer {
      var begun: OpaquePointer?
      try check(mdb_txn_begin(environment, nil, isReading ? UInt32(MDB_RDONLY) : 0, &begun), "begin")
      guard let begun else { throw BenchmarkFailure("LMDB has begun nothing") }
      let answer: Answer
      do {
        answer = try body(begun)
      } catch {
        mdb_txn_abort(begun)
        throw error
      }
      if isReading { mdb_txn_abort(begun) } else { try check(mdb_txn_commit(begun), "commit") }
      return answer
    }

    private static func withKey<Answer>(
      _ entry: Entry, _ body: (UnsafeMutablePointer<MDB_val>) throws -> Answer
    ) throws -> Answer {
      try entry.withKeyBytes { bytes in
        var key = MDB_val(mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
        return try body(&key)
      }
    }

    private static func check(_ result: CInt, _ what: String) throws {
      guard result == 0 else { throw BenchmarkFailure("LMDB: \(what): \(String(cString: mdb_strerror(result)))") }
    }
  }
#endif

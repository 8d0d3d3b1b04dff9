#if os(Linux)
  import CRawFiles
  import Foundation
  import SystemPackage
  import Workbench

  /// The system calls of the store in C only, which shows the part of its time that is not the file system's.
  ///
  /// Unchecked: the C object is thread-safe.
  final class RecycledFilesEngine: Engine, Session, @unchecked Sendable {
    private let files: OpaquePointer

    init(directory: FilePath) throws {
      guard let files = recycled_files_open(directory.string) else {
        throw BenchmarkFailure("opening \(directory): \(Errno(rawValue: errno))")
      }
      self.files = files
    }

    deinit { recycled_files_close(files) }

    func session() -> any Session { self }

    func store(_ entry: Entry) throws {
      var key = entry.raw
      let result = entry.payload.record.withUnsafeBytes { record in
        recycled_files_store(files, &key, record.baseAddress!, record.count)
      }
      try BenchmarkFailure.check(result, "recycled store")
    }

    func replace(_ entry: Entry) throws {
      var key = entry.raw
      let result = entry.payload.record.withUnsafeBytes { record in
        recycled_files_replace(files, &key, record.baseAddress!, record.count)
      }
      try BenchmarkFailure.check(result, "recycled replace")
    }

    /// The bytes are freed after the read and not returned; only a miss is reported.
    func load(_ entry: Entry) throws -> Data? {
      var key = entry.raw
      let found = recycled_files_load(files, &key)
      try BenchmarkFailure.check(found, "recycled load")
      return found == 1 ? entry.payload.bytes : nil
    }

    func loadTouching(_ entry: Entry) throws -> Data? {
      var key = entry.raw
      let found = recycled_files_load_touching(files, &key)
      try BenchmarkFailure.check(found, "recycled touch")
      return found == 1 ? entry.payload.bytes : nil
    }

    func remove(_ entry: Entry) throws {
      var key = entry.raw
      try BenchmarkFailure.check(recycled_files_remove(files, &key), "recycled remove")
    }
  }
#endif

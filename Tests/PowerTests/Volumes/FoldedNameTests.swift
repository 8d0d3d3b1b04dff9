import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/RecordFormat.md, 7: a file system that ignores case. Linux hardly has one, so a mount creates two names for
/// one subdirectory.
@Suite struct FoldedNameTests {
  @Test(.canMount(.tmpfs)) func recordsInASubdirectoryOfAnotherCaseAreRecords() throws {
    let volume = try Volume(.tmpfs, megabytes: 16, mountOptions: "size=16m")
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    let start = UnixTime(seconds: 1_700_000_000)
    configuration.now = { start }
    try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
      .store(Data("first".utf8), for: "ABcd", ttl: .seconds(10))
    try FileManager.default.createDirectory(atPath: volume.cache + "/ab", withIntermediateDirectories: false)
    try withBothNames(volume, configuration) { store in
      try store.store(Data("second".utf8), for: "abcd", ttl: .seconds(10))
      #expect(try store.load("abcd")?.payload == Data("second".utf8))
      #expect(try store.load("ABcd")?.payload == Data("first".utf8))
      // Each record is listed twice, because the mount lists the subdirectory under both names.
      #expect(try store.usage().foreignFiles == 0)
      #expect(try store.records().map(\.file).sorted() == ["AB/ABcd", "AB/ABcd", "ab/abcd", "ab/abcd"])
      #expect(try store.records(prefix: "ab").map(\.file) == ["ab/abcd"])
      #expect(try store.verify().soundRecords == 4)
    }
    // Without the mount, the record under the other name cannot be found, and is a foreign file.
    let store = try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
    #expect(try store.load("abcd") == nil)
    #expect(try store.usage().foreignFiles == 1)
    configuration.now = { start.advanced(bySeconds: 11) }
    try withBothNames(volume, configuration) { store in
      let report = try store.collect()
      #expect(report.expired == 2)
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: volume.cache + "/ab") == [])
  }

  /// - Parameter body: A closure whose store is released before the unmount, because it holds the subdirectory open.
  private func withBothNames(
    _ volume: Volume, _ configuration: BlobStore.Configuration, _ body: (BlobStore) throws -> Void
  ) throws {
    try ChildProcess.runSuccessfully(["mount", "--bind", volume.cache + "/AB", volume.cache + "/ab"])
    defer { #expect(throws: Never.self) { try ChildProcess.runSuccessfully(["umount", volume.cache + "/ab"]) } }
    try body(BlobStore(directory: FilePath(volume.cache), configuration: configuration))
  }
}

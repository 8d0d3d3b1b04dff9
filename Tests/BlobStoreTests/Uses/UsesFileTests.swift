import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Uses.md: whatever happens to the file of uses, only its counts are lost.
@Suite struct UsesFileTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let file = ".blobcache-uses"
  private static let count = 300

  private func store(files: Files = Files()) throws -> BlobStore {
    try cache.store(files: files) { $0.limits.size = 1 << 20 }
  }

  /// Stores records, and closes the file of uses, because truncating a mapped file ends the processes that map it.
  private func fill() throws {
    let store = try store()
    for number in 0..<Self.count { try store.store(payload(number), for: BlobKey("\(number)")) }
    for _ in 0..<5 { _ = try store.load("7") }
    #expect(try uses(of: "7", in: store) == 5)
  }

  /// Returns the number of uses of a key, or `nil` if no uses are counted.
  private func uses(of key: BlobKey, in store: BlobStore) throws -> Int? {
    let open = try #require(try store.core.root.opened())
    let control = try #require(open.openedControlFile)
    let digest = try store.core.path(for: key).digest
    return store.core.uses.withSketch(of: control, in: open) { $0.uses(of: digest).count }
  }

  enum Change: CaseIterable {
    case missing, empty, cutInTheHeader, cutAfterTheHeader, cutByAByte, longerByAByte, ofALaterVersion, noise
    case holes, sparse, hardLink
    case symbolicLink, fifo, directory

    /// A Boolean value that indicates whether the file is foreign afterwards, and must not be changed.
    var isForeign: Bool { [.symbolicLink, .fifo, .directory].contains(self) }

    /// A Boolean value that indicates whether the counts are kept.
    var keepsCounts: Bool { self == .sparse }
  }

  private func make(_ change: Change) throws {
    let path = cache.path(Self.file)
    let size = try #require(try cache.state(Self.file)).size
    func resize(_ byteCount: Int64) throws { try check(truncate(path, off_t(byteCount)), "truncate") }
    func replace(_ make: () throws -> Void) throws {
      try FileManager.default.removeItem(atPath: path)
      try make()
    }
    switch change {
    case .missing: try FileManager.default.removeItem(atPath: path)
    case .empty: try resize(0)
    case .cutInTheHeader: try resize(100)
    case .cutAfterTheHeader: try resize(4096)
    case .cutByAByte: try resize(size - 1)
    case .longerByAByte: try resize(size + 1)
    case .ofALaterVersion:
      let handle = try FileHandle(forUpdating: URL(filePath: path))
      try handle.seek(toOffset: 8)
      try handle.write(contentsOf: Data([9]))
      try handle.close()
    case .noise: try cache.write((0..<Int(size)).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 8) }, to: Self.file)
    case .holes:
      try resize(0)
      try resize(size)
    case .sparse:
      #if os(Linux)
        let copy = cache.outside.path.string + "/copy"
        try ChildProcess.runSuccessfully(["cp", "-a", "--sparse=always", path, copy])
        try check(rename(copy, path), "rename")
      #endif
    case .hardLink: try check(link(path, cache.outside.path.string + "/link"), "link")
    case .symbolicLink:
      try replace { try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "elsewhere") }
    case .fifo: try replace { try check(mkfifo(path, 0o600), "mkfifo") }
    case .directory: try replace { try cache.makeDirectory(Self.file) }
    }
  }

  @Test(arguments: Change.allCases) func onlyCountsAreLost(change: Change) throws {
    try fill()
    try make(change)
    let before = try cache.state(Self.file)
    let link = cache.outside.path.string + "/link"
    let linked = try fileState(link)
    let store = try store()
    for number in 0..<Self.count { #expect(try store.load(BlobKey("\(number)"))?.payload == payload(number)) }
    try store.store(payload(1), for: "new")
    try store.collect()
    #expect(try store.usageEstimate()?.records == Int64(Self.count + 1))
    if change.isForeign {
      #expect(try uses(of: "7", in: store) == nil)
      #expect(try cache.state(Self.file) == before)
    } else {
      // A later version may count, too, so its file is replaced only because this program enforces a limit.
      let counted = try #require(try uses(of: "7", in: store))
      #expect(change.keepsCounts ? counted == 6 : counted <= 1)
      for _ in 0..<3 { _ = try store.load("new") }
      let other = try self.store()
      _ = try other.load("new")
      #expect(try uses(of: "new", in: other) ?? 0 >= 4)
      #expect(try cache.state(Self.file)?.links == 1)
      #expect(try fileState(link)?.content == linked?.content)
    }
  }

  /// Holes, whether or not another link leads to the file, take no room that a full volume does not have.
  @Test(arguments: [Change.holes, .sparse, .cutAfterTheHeader, .missing, .hardLink])
  func aFullVolumeCountsNothing(change: Change) throws {
    try fill()
    try make(change)
    trace.onCall { call, path in
      [.allocate, .allocateRange].contains(call) && path.lastComponent?.string != ".blobcache" ? .fail(.noSpace) : nil
    }
    let store = try store(files: trace.files)
    for number in 0..<Self.count { #expect(try store.load(BlobKey("\(number)"))?.payload == payload(number)) }
    try store.store(payload(1), for: "new")
    try store.collect()
    #expect(try store.usageEstimate()?.records == Int64(Self.count + 1))
    #expect(try uses(of: "7", in: store) == nil)
    trace.onCall(nil)
    let later = try self.store()
    try later.store(payload(2), for: "newer")
    _ = try later.load("newer")
    #expect(try uses(of: "newer", in: later) ?? 0 >= 1)
  }
}

import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// P18: concurrent changes of a directory's settings.
@Suite struct SettingsChangeTests {
  let cache: Cache

  init() throws {
    cache = try Cache()
    try cache.makeDirectory("")
  }

  enum State: String, CaseIterable {
    case neverUsed
    case used
    case withoutControlFile
    case openToReaders
    case openToReadersWithoutControlFile

    var hasControlFile: Bool { self == .used || self == .openToReaders }
  }

  private func prepare(_ state: State) throws {
    if state != .neverUsed { try cache.store().store(payload(1), for: "key", ttl: .seconds(60)) }
    if state == .withoutControlFile || state == .openToReadersWithoutControlFile {
      try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    }
    if state == .openToReaders || state == .openToReadersWithoutControlFile {
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: cache.path(""))
    }
  }

  private static let changes: [@Sendable (inout BlobStore.DirectorySettings) -> Void] = [
    { $0.defaultTimeToLive = .never }, { $0.sizeLimit = .atMost(1 << 30) }, { $0.countLimit = .atMost(7) },
    { $0.freeSpaceFloor = 1 }, { $0.eviction = .oldest }, { $0.naming = .encoded }, { $0.arrangement = .prefix },
  ]

  @Test(arguments: State.allCases)
  func changesAtOnceAllSurvive(state: State) throws {
    try prepare(state)
    let root = cache.root
    var all = BlobStore.DirectorySettings()
    for change in Self.changes { change(&all) }
    for _ in 0..<10 {
      try BlobStore.changeSettings(of: root, resetting: true) { _ in }
      DispatchQueue.concurrentPerform(iterations: Self.changes.count) { index in
        // A timeout that is sufficient on slow machines.
        _ = #expect(throws: Never.self) {
          try BlobStore.changeSettings(
            of: root, lockTimeout: .seconds(600), files: Files(), Self.changes[index])
        }
      }
      #expect(try BlobStore.settings(of: root) == all)
    }
    #expect(try cache.exists(".blobcache") == state.hasControlFile)
  }

  @Test(arguments: State.allCases.filter { !$0.hasControlFile })
  func aChangeKeepsOthersOff(state: State) throws {
    try prepare(state)
    try BlobStore.changeSettings(of: cache.root) { settings in
      expect(.busy) {
        try BlobStore.changeSettings(of: cache.root, lockTimeout: .zero, files: Files()) { $0.countLimit = .atMost(1) }
      }
      settings.sizeLimit = .atMost(5)
    }
    var expected = BlobStore.DirectorySettings()
    expected.sizeLimit = .atMost(5)
    #expect(try BlobStore.settings(of: cache.root) == expected)
  }

  @Test(arguments: State.allCases.filter { $0 != .openToReaders })
  func aRootThatOthersKeepLockedIsBusy(state: State) throws {
    try prepare(state)
    do {
      let holder = try rootDirectory()
      #expect(try holder.tryLock())
      let error = #expect(throws: BlobStoreError.self) {
        try BlobStore.changeSettings(of: cache.root, lockTimeout: .milliseconds(1), files: Files()) {
          $0.eviction = .oldest
        }
      }
      #expect(error?.code == .busy)
      #expect(error?.operation == "configure")
      #expect(error?.path == cache.root)
    }
    #expect(try BlobStore.settings(of: cache.root).isEmpty)
    try BlobStore.changeSettings(of: cache.root, lockTimeout: .zero, files: Files()) { $0.eviction = .oldest }
    #expect(try BlobStore.settings(of: cache.root).eviction == .oldest)
  }

  /// The collector's byte, which no reader can lock, is sufficient.
  @Test func aReadersLockOfTheRootKeepsNobodyOut() throws {
    try prepare(.openToReaders)
    let reader = try rootDirectory()
    #expect(try reader.tryLock())
    try BlobStore.changeSettings(of: cache.root, lockTimeout: .zero, files: Files()) { $0.eviction = .oldest }
    #expect(try BlobStore.settings(of: cache.root).eviction == .oldest)
  }

  private func rootDirectory() throws -> Directory {
    guard let directory = try Directory(at: cache.root, files: Files()) else { throw CocoaError(.fileNoSuchFile) }
    return directory
  }
}

import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Subdirectories are kept open between changes, in which time other processes may move or remove them.
@Suite struct OpenSubdirectoriesTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func openings() -> Int { trace.count(.openDirectory) }

  private func removeSubdirectory(_ name: String) throws {
    try FileManager.default.removeItem(atPath: cache.path(name))
  }

  private func move(_ file: String, to target: String) throws {
    try FileManager.default.moveItem(atPath: cache.path(file), toPath: cache.path(target))
  }

  /// The kind of file in which a store writes its record.
  enum Making: CaseIterable, Sendable { case recycled, unnamed, named }

  private func store(_ making: Making) throws -> BlobStore {
    let trace = trace
    if making == .named {
      trace.onCall { call, _ in call == .openUnnamed ? .fail(.notSupported) : nil }
    }
    let store = try cache.store(files: trace.files) { $0.recycling = making == .recycled ? .automatic : .off }
    if making == .recycled {
      try store.store(payload(5), for: "bea")
      try store.remove("bea")
    }
    return store
  }

  @Test func changesThatFollowEachOtherOpenASubdirectoryOnce() throws {
    let store = try cache.store(files: trace.files) { $0.recycling = .off }
    try store.store(payload(5), for: "key")
    _ = trace.take()
    for key: BlobKey in ["key", "kettle", "kelp"] {
      try store.store(payload(5), for: key)
      #expect(try store.remove(key) == .done)
    }
    // The first store has no control file yet, which determines whether a subdirectory may be kept open.
    #expect(openings() == 1)
  }

  /// P7: a moved subdirectory is noticed like a replaced root, also after checks have found the root unchanged.
  @Test(arguments: [0, 2]) func subdirectoryThatWasMovedAwayIsNoticedASecondLater(seconds: Int) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    for _ in 0..<seconds {
      Thread.sleep(forTimeInterval: 1.1)
      try store.store(payload(5), for: "key")
    }
    try move("ke", to: "moved")
    Thread.sleep(forTimeInterval: 1.1)
    try store.store(payload(6), for: "kelp")
    #expect(try store.load("kelp")?.payload == payload(6))
    #expect(try cache.files() == ["ke/kelp", "moved/key"])
  }

  /// A symbolic link in place of the subdirectory is not followed.
  @Test func linkInTheSubdirectorysPlaceIsNotFollowed() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try move("ke", to: "moved")
    try FileManager.default.createDirectory(atPath: cache.path("elsewhere"), withIntermediateDirectories: false)
    try cache.write([1], to: "elsewhere/key")
    try FileManager.default.createSymbolicLink(atPath: cache.path("ke"), withDestinationPath: "elsewhere")
    #expect(try store.remove("kelp") == .notFound)
    #expect(expect(.fileSystem) { try store.store(payload(6), for: "kelp") }?.path == cache.root.appending("ke"))
    #expect(try cache.files() == ["elsewhere/key", "ke", "moved/key"])
  }

  /// A collection of another process has removed the empty subdirectory.
  @Test(arguments: Making.allCases) func storeMakesASubdirectoryAgainThatSomebodyRemoved(making: Making) throws {
    let store = try store(making)
    try store.store(payload(5), for: "key")
    try store.remove("key")
    try removeSubdirectory("ke")
    try store.store(payload(6), for: "kelp")
    #expect(try store.load("kelp")?.payload == payload(6))
    try store.store(payload(7), for: "kelp")
    #expect(try store.load("kelp")?.payload == payload(7))
  }

  /// The replaced record no longer exists in the subdirectory that the store has open.
  @Test(arguments: Making.allCases) func storeReplacesWhatIsInASubdirectoryThatSomebodyMadeAgain(making: Making) throws
  {
    let store = try store(making)
    try store.store(payload(5), for: "key")
    try removeSubdirectory("ke")
    let other = try cache.store()
    try other.store(payload(6), for: "key", locks: .one)
    try store.store(payload(7), for: "key", locks: .keep)
    #expect(try store.load("key")?.payload == payload(7))
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try cache.files() == ["ke/key"])
  }

  @Test(arguments: [BlobStore.Recycling.automatic, .off])
  func removalFindsWhatIsInASubdirectoryThatSomebodyMadeAgain(recycling: BlobStore.Recycling) throws {
    let store = try cache.store { $0.recycling = recycling }
    try store.store(payload(5), for: "key")
    try removeSubdirectory("ke")
    #expect(try store.remove("key") == .notFound)
    try store.store(payload(5), for: "kelp")
    try removeSubdirectory("ke")
    try cache.store().store(payload(6), for: "key")
    #expect(try store.remove("key") == .done)
    #expect(try cache.files().isEmpty)
  }

  /// The Angstrom sign and the letter are equal strings, but name two subdirectories.
  @Test func equalStringsAreTwoSubdirectories() throws {
    let store = try cache.store()
    let keys: [BlobKey] = ["\u{212B}x1", "\u{C5}x1"]
    for key in keys { try store.store(payload(5), for: key) }
    for key in keys {
      let directory = String(key.string.prefix(2))
      #expect(try cache.exists(directory + "/" + key.string))
    }
  }

  /// In a layout without subdirectories, the root is kept open like a subdirectory.
  @Test func changesWithoutSubdirectoriesOpenTheRootOnce() throws {
    let store = try cache.store(files: trace.files) {
      $0.layout.separatesDirectories = false
      $0.recycling = .off
    }
    try store.store(payload(5), for: "key")
    _ = trace.take()
    try store.store(payload(6), for: "kelp")
    #expect(try store.remove("key") == .done)
    #expect(try store.remove("key") == .notFound)
    // The first store has no control file yet, which determines whether a subdirectory may be kept open.
    #expect(openings() == 1)
    #expect(try cache.files() == ["kelp"])
  }

  /// The time of the table's clock in milliseconds.
  private static let now: Int64 = 1_000_000

  /// All caches together respect the limit. A cache that may open no more keeps the last one.
  @Test(arguments: [0, 1, 2, 3]) func noMoreAreKeptOpenThanMayBe(limit: Int) throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    let names = ["aa", "ab", "ac", "ad"]
    for name in names { #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute)) }
    let budget = OpenFileBudget(limit: limit)
    func remember(_ name: String, in table: OpenSubdirectories) throws {
      table.remember(OpenSubdirectory(try directory.openSubdirectory(name)!), name, since: Self.now)
      #expect(openPaths(below: cache.outside.path).count <= limit + 1)
    }
    do {
      let table = OpenSubdirectories(budget)
      for name in names {
        try remember(name, in: table)
        #expect((table.find(name, at: Self.now) != nil) == (limit > 0))
      }
      let other = OpenSubdirectories(budget)
      for name in names { try remember(name, in: other) }
      table.forget("ad")
      #expect(table.find("ad", at: Self.now) == nil)
    }
    // Both tables are released and return their budget.
    for _ in 0..<limit { #expect(budget.take()) }
    #expect(!budget.take())
  }

  /// If the limit is reached, a cache closes the subdirectory that it has used least recently, and no other one.
  @Test func theLeastRecentlyUsedIsClosed() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    let names = ["aa", "ab", "ac", "ad"]
    for name in names { #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute)) }
    let budget = OpenFileBudget(limit: 3)
    let table = OpenSubdirectories(budget)
    func remember(_ name: String) throws {
      table.remember(OpenSubdirectory(try directory.openSubdirectory(name)!), name, since: Self.now)
    }
    /// Returns the names of open subdirectories, and changes no order.
    func opened() -> [String] {
      names.filter { openPaths(below: cache.outside.path.appending($0)).count == 1 }
    }
    for name in names.prefix(3) { try remember(name) }
    #expect(table.find("aa", at: Self.now) != nil)
    try remember("ad")
    #expect(opened() == ["aa", "ac", "ad"])
    // Another opening is a use as well, and takes no more of the budget.
    try remember("ac")
    try remember("ab")
    #expect(opened() == ["ab", "ac", "ad"])
    table.forget("ac")
    try remember("aa")
    #expect(opened() == ["aa", "ab", "ad"])
    #expect(!budget.take())
  }

  @Test func allCanBeClosed() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    let budget = OpenFileBudget(limit: 2)
    let table = OpenSubdirectories(budget)
    for name in ["aa", "ab"] {
      #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute))
      table.remember(OpenSubdirectory(try directory.openSubdirectory(name)!), name, since: Self.now)
    }
    table.closeAll()
    #expect(openPaths(below: cache.outside.path).count <= 1)
    #expect(table.find("aa", at: Self.now) == nil)
    for _ in 0..<2 { #expect(budget.take()) }
    #expect(!budget.take())
  }

  /// A store that stores in many subdirectories keeps few of them open, and none once it is told to close them.
  @Test func fewStayOpenAndNoneWithoutWork() throws {
    let store = try cache.store(files: Files(budget: OpenFileBudget(limit: 4)))
    store.closeSubdirectories()
    for number in 0..<40 { try store.store(payload(5), for: BlobKey("\(number)x")) }
    let names = try FileManager.default.contentsOfDirectory(atPath: cache.root.string).filter { $0.count == 2 }
    #expect(names.count == 40)
    func openCount() -> Int { names.count { !openPaths(below: cache.root.appending($0)).isEmpty } }
    #expect((1...4).contains(openCount()))
    store.closeSubdirectories()
    #expect(openCount() == 0)
    try store.store(payload(6), for: "11x")
    #expect(try store.load("11x")?.payload == payload(6))
  }

  /// If two threads open the same subdirectory, the first descriptor is closed and returned to the budget.
  @Test func theLastOfANameIsKept() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    #expect(try directory.makeSubdirectory("aa", permissions: .ownerReadWriteExecute))
    let budget = OpenFileBudget(limit: 2)
    let table = OpenSubdirectories(budget)
    for _ in 0..<2 {
      let opened = OpenSubdirectory(try directory.openSubdirectory("aa")!)
      table.remember(opened, "aa", since: Self.now)
      #expect(table.find("aa", at: Self.now) === opened)
    }
    #expect(openPaths(below: cache.outside.path).count <= 2)
    #expect(budget.take())
    #expect(!budget.take())
  }

  /// Subdirectory names have two UTF-16 code units, or three if the second and third are one scalar.
  @Test func theLongestNamesOfALayoutAreKeptAndLongerOnesAreNot() throws {
    let layout = RecordLayout(naming: .verbatim)
    let names = ["", "ab", "abc", "\u{FFFD}b", "\u{FFFD}\u{FFFD}", "\u{FFFD}\u{10FFFF}", "\u{10FFFF}"]
    #expect(names.dropFirst(3).allSatisfy { layout.isSubdirectory($0) })
    let directory = try Directory(at: cache.outside.path, files: Files())!
    let budget = OpenFileBudget(limit: names.count)
    let table = OpenSubdirectories(budget)
    let opened = try names.map { _ in OpenSubdirectory(try directory.reopened()) }
    for (name, subdirectory) in zip(names, opened) { table.remember(subdirectory, name, since: Self.now) }
    for (name, subdirectory) in zip(names, opened) {
      #expect(table.find(name, at: Self.now) === subdirectory, "\(name)")
    }
    #expect(!budget.take())
    table.forget("ab")
    let long = "\u{10FFFF}\u{10FFFF}"
    table.remember(opened[0], long, since: Self.now)
    #expect(table.find(long, at: Self.now) == nil)
    table.forget(long)
    #expect(budget.take())
    #expect(!budget.take())
  }

  enum RootLook: CaseIterable, Sendable {
    /// The root is unchanged since the subdirectory was opened.
    case unchanged
    /// The root changed so shortly before the first check that a further change might have the same timestamp.
    case changedLately
    case changedSince
    /// The first check is made after the opening, so a change in the meantime cannot be excluded.
    case firstLookAfterTheOpening
  }

  @Test(arguments: RootLook.allCases) func unchangedRootShowsThatASubdirectoryIsThere(look: RootLook) throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    #expect(try directory.makeSubdirectory("aa", permissions: .ownerReadWriteExecute))
    let table = OpenSubdirectories(OpenFileBudget(limit: 1))
    let first = try directory.status()
    let systemTime = first.changeNanoseconds + (look == .changedLately ? 50_000_000 : 5_000_000_000)
    table.confirm(first, systemTime: systemTime, at: Self.now - 3000)
    table.remember(
      OpenSubdirectory(try directory.openSubdirectory("aa")!), "aa",
      since: Self.now - (look == .firstLookAfterTheOpening ? 4000 : 2000))
    if look == .changedSince {
      // Longer than the granularity of file system timestamps.
      Thread.sleep(forTimeInterval: 0.05)
      #expect(try directory.makeSubdirectory("ab", permissions: .ownerReadWriteExecute))
    }
    table.confirm(try directory.status(), systemTime: systemTime + 1_000_000_000, at: Self.now)
    #expect((table.find("aa", at: Self.now) != nil) == (look == .unchanged))
  }

  /// The check that confirms later opened subdirectories does not cover one that was opened before them.
  @Test func whatWasOpenedBeforeTheOthersIsNotKept() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    for name in ["aa", "ab"] { #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute)) }
    let budget = OpenFileBudget(limit: 2)
    let table = OpenSubdirectories(budget)
    table.remember(OpenSubdirectory(try directory.openSubdirectory("aa")!), "aa", since: Self.now)
    table.remember(OpenSubdirectory(try directory.openSubdirectory("ab")!), "ab", since: Self.now - 1)
    #expect(table.find("aa", at: Self.now) != nil)
    #expect(table.find("ab", at: Self.now) == nil)
    #expect(budget.take())
    #expect(!budget.take())
  }

  /// The table forgets the confirmed state of the root with its last subdirectory.
  @Test func confirmationIsForgottenWithTheLast() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    for name in ["aa", "ab"] { #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute)) }
    let table = OpenSubdirectories(OpenFileBudget(limit: 2))
    let root = try directory.status()
    let systemTime = root.changeNanoseconds + 5_000_000_000
    table.confirm(root, systemTime: systemTime, at: Self.now - 3000)
    table.remember(OpenSubdirectory(try directory.openSubdirectory("aa")!), "aa", since: Self.now - 2000)
    table.confirm(root, systemTime: systemTime, at: Self.now)
    #expect(table.find("aa", at: Self.now) != nil)
    table.forget("aa")
    table.remember(OpenSubdirectory(try directory.openSubdirectory("ab")!), "ab", since: Self.now - 2000)
    #expect(table.find("ab", at: Self.now) == nil)
  }

  /// A cache closes its subdirectories when they are too old.
  @Test func whatIsOldIsClosed() throws {
    let directory = try Directory(at: cache.outside.path, files: Files())!
    #expect(try directory.makeSubdirectory("aa", permissions: .ownerReadWriteExecute))
    let budget = OpenFileBudget(limit: 1)
    let table = OpenSubdirectories(budget)
    table.remember(OpenSubdirectory(try directory.openSubdirectory("aa")!), "aa", since: Self.now - 1000)
    #expect(openPaths(below: cache.outside.path).count <= 2)
    #expect(table.find("aa", at: Self.now) == nil)
    #expect(openPaths(below: cache.outside.path).count <= 1)
    #expect(budget.take())
  }

  /// On network file systems, a subdirectory that another host has removed is noticed only by failing calls.
  @Test func noneAreKeptOpenOnNetworkFileSystems() throws {
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .volumeStatus ? .answer(Int(MappingHazard.incoherent.rawValue)) : nil }
    // The first store also opens the root and the control file's directory.
    try store.store(payload(5), for: "key")
    _ = trace.take()
    for _ in 0..<3 { try store.store(payload(5), for: "key") }
    #expect(openings() >= 3)
  }
}

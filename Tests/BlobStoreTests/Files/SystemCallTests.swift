import BlobRecord
import Foundation
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// Each operation makes exactly the system calls that Spec/Performance.md lists, in that order.
@Suite struct SystemCallTests {
  /// An operation, with its name in the document, in a directory where all one-time files exist already.
  struct Scenario: Sendable, CustomStringConvertible {
    let name: String
    var recycles = false
    /// A Boolean value that indicates whether an ordinary user runs the process and learns owners by opening files.
    var isOrdinary = false
    var rootMode: mode_t = 0o700
    /// A Boolean value that indicates whether the store has not done anything before.
    var isNew = false
    /// A Boolean value that indicates whether the process has not written to the key's pages of the control file before.
    var isFirstOfPages = false
    var change: @Sendable (inout BlobStore.Configuration) -> Void = { _ in }
    var prepare: @Sendable (BlobStore) throws -> Void = { _ in }
    let run: @Sendable (BlobStore) throws -> Void

    var description: String { name }
    /// A Boolean value that indicates whether the file system of the tests supports the calls.
    var isPossible: Bool { !name.contains("never waits") || SystemCall.hasCachedLookups }
  }

  static let scenarios: [Scenario] = [
    Scenario(name: "load", run: { _ = try $0.load("key") }),
    Scenario(name: "load, by an ordinary user", isOrdinary: true, run: { _ = try $0.load("key") }),
    Scenario(
      name: "load, by an ordinary user, where others may enter the root", isOrdinary: true, rootMode: 0o755,
      run: { _ = try $0.load("key") }),
    Scenario(
      name: "load, under a sticky root that others may write to", isOrdinary: true, rootMode: 0o1777,
      run: { _ = try $0.load("key") }),
    Scenario(
      name: "load, above 8 KiB", prepare: { try $0.store(Data(count: 8193), for: "kept", ttl: .seconds(1000)) },
      run: { _ = try $0.load("kept") }),
    Scenario(
      name: "load, above 1 KiB, by an ordinary user, for the first time after smaller ones", isOrdinary: true,
      prepare: {
        try $0.store(Data(count: 1024), for: "kept", ttl: .seconds(1000))
        _ = try $0.load("key")
      }, run: { _ = try $0.load("kept") }),
    Scenario(
      name: "load, above 1 KiB, by an ordinary user", isOrdinary: true,
      prepare: {
        try $0.store(Data(count: 1024), for: "kept", ttl: .seconds(1000))
        _ = try $0.load("kept")
      }, run: { _ = try $0.load("kept") }),
    Scenario(
      name: "load, by an ordinary user, after one above 8 KiB", isOrdinary: true,
      prepare: {
        try $0.store(Data(count: 8193), for: "kept", ttl: .seconds(1000))
        _ = try $0.load("kept")
      }, run: { _ = try $0.load("key") }),
    Scenario(
      name: "load, above 1 MiB", prepare: { try $0.store(Data(count: 1 << 20 + 1), for: "kept", ttl: .seconds(1000)) },
      run: { _ = try $0.load("kept") }),
    Scenario(name: "load, absent", run: { _ = try $0.load("kept out") }),
    Scenario(name: "load, the first of a store", isNew: true, run: { _ = try $0.load("key") }),
    Scenario(
      name: "load, the first of a store, with a file of uses", isNew: true, change: { $0.limits.size = 1 << 30 },
      run: { _ = try $0.load("key") }),
    Scenario(
      name: "load that touches", prepare: { try $0.store(Data("aged".utf8), for: "kept") },
      run: { _ = try $0.load("kept") }),
    Scenario(name: "load that never waits", run: { try loadIfCached("key", in: $0) }),
    Scenario(
      name: "load that never waits, absent",
      prepare: { _ = try $0.load("kept out") }, run: { try loadIfCached("kept out", in: $0) }),
    Scenario(
      name: "load that never waits, above 256 KiB",
      prepare: { try $0.store(Data(count: 256 << 10 + 1), for: "kept", ttl: .seconds(1000)) },
      run: { try loadIfCached("kept", in: $0) }),
    Scenario(name: "header that never waits", run: { _ = $0.headerIfCached(for: "key") }),
    Scenario(name: "header, contains", run: { _ = try $0.header(for: "key") }),
    Scenario(
      name: "touch", prepare: { try $0.store(Data("aged".utf8), for: "kept") }, run: { _ = try $0.touch("kept") }),
    Scenario(name: "lock, unlock", run: { _ = try $0.lock("key") }),
    Scenario(name: "lock, exclusive", change: { $0.access.sharing = .exclusive }, run: { _ = try $0.lock("key") }),
    Scenario(name: "store, new", run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, new, the first of its pages", isFirstOfPages: true, run: { try $0.store(payload, for: "kept") }),
    Scenario(name: "store, replaced", run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "load, with extended data",
      prepare: { try $0.store(payload, for: "kept", ttl: .seconds(1000), extendedData: payload) },
      run: { _ = try $0.load("kept") }),
    Scenario(
      name: "store, new, with extended data", run: { try $0.store(payload, for: "kept", extendedData: payload) }),
    Scenario(
      name: "extendedData", prepare: { try $0.store(payload, for: "kept", ttl: .seconds(1000), extendedData: payload) },
      run: { _ = try $0.extendedData(for: "kept") }),
    Scenario(
      name: "setExtendedData",
      prepare: { try $0.store(payload, for: "kept", ttl: .seconds(1000), extendedData: payload) },
      run: { _ = try $0.setExtendedData(Data("another".utf8), for: "kept") }),
    Scenario(
      name: "store, new, exclusive", change: { $0.access.sharing = .exclusive },
      run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, replaced, exclusive", change: { $0.access.sharing = .exclusive },
      run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "store, replaced, full", change: { $0.durability = .full }, run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "store, new, recycled", recycles: true, prepare: fillBin, run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, new, recycled, another's file", recycles: true, prepare: fillBinByAnother,
      run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, new, recycled, after a replaced one", recycles: true, prepare: fillBinAndReplace,
      run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, replaced, recycled", recycles: true, prepare: fillBinAndReplace,
      run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "store, replaced, recycled, after a new one", recycles: true, prepare: fillBin,
      run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "writer of one piece, new",
      run: {
        var writer = try $0.openWriter(for: "kept")
        try writer.append(payload)
        try writer.commit()
      }),
    Scenario(
      name: "writer of two pieces, of a known size, replaced",
      run: {
        var writer = try $0.openWriter(for: "key", expectedSize: 2 * Int64(payload.count))
        for _ in 0..<2 { try writer.append(payload) }
        try writer.commit()
      }),
    Scenario(name: "reader, opened and closed", run: { _ = try $0.openReader(for: "key") }),
    Scenario(
      name: "reader, opened, a range, closed", run: { _ = try $0.openReader(for: "key")?.read(1..<3) }),
    Scenario(name: "remove, recycled", recycles: true, prepare: fillBin, run: { _ = try $0.remove("key") }),
    Scenario(name: "remove", run: { _ = try $0.remove("key") }),
    Scenario(name: "remove, absent", run: { _ = try $0.remove("kept out") }),
    Scenario(name: "remove, absent, without a subdirectory", run: { _ = try $0.remove("absent") }),
    Scenario(name: "load, packed", change: pack, run: { _ = try $0.load("key") }),
    Scenario(
      name: "load that touches, packed", change: pack, prepare: { try $0.store(Data("aged".utf8), for: "kept") },
      run: { _ = try $0.load("kept") }),
    Scenario(name: "load that never waits, packed", change: pack, run: { try loadIfCached("key", in: $0) }),
    Scenario(name: "header, contains, packed", change: pack, run: { _ = try $0.header(for: "key") }),
    Scenario(
      name: "touch, packed", change: pack, prepare: { try $0.store(Data("aged".utf8), for: "kept") },
      run: { _ = try $0.touch("kept") }),
    Scenario(name: "lock, packed, for the first time", change: pack, run: { _ = try $0.lock("key") }),
    Scenario(
      name: "lock, unlock, packed", change: pack, prepare: { try $0.lock("key") }, run: { _ = try $0.lock("key") }),
    Scenario(
      name: "store, new, packed", change: pack, prepare: { try $0.store(payload, for: "keen") },
      run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, new, packed, the first of a chunk", change: pack, run: { try $0.store(payload, for: "kept") }),
    Scenario(
      name: "store, replaced, packed", change: pack, prepare: { try $0.store(payload, for: "keen") },
      run: { try $0.store(payload, for: "key") }),
    Scenario(
      name: "store, new, packed, full",
      change: {
        pack(&$0)
        $0.durability = .full
      }, run: { try $0.store(payload, for: "kept") }),
    Scenario(name: "reader, opened and closed, packed", change: pack, run: { _ = try $0.openReader(for: "key") }),
    Scenario(name: "remove, packed", change: pack, run: { _ = try $0.remove("key") }),
    Scenario(
      name: "remove, packed, full",
      change: {
        pack(&$0)
        $0.durability = .full
      }, run: { _ = try $0.remove("key") }),
    Scenario(name: "remove, full", change: { $0.durability = .full }, run: { _ = try $0.remove("key") }),
  ]

  private static let payload = Data("payload".utf8)

  @Sendable private static func pack(_ configuration: inout BlobStore.Configuration) {
    configuration.packing = .upTo(8192)
  }

  private static func loadIfCached(_ key: BlobKey, in store: BlobStore) throws {
    var receipt = LoadReceipt()
    _ = store.loadIfCached(key, at: try store.path(of: key, for: "load"), touching: true, &receipt)
  }

  /// Fills the bin with files that any record may overwrite, because the digests of their former records are low.
  @Sendable private static func fillBin(_ store: BlobStore) throws {
    for key: BlobKey in ["bea", "beb", "bec"] { try store.store(payload, for: key, ttl: .seconds(1000)) }
    // A file that was written to a moment ago is read before it is overwritten.
    waitUntilWritesArePast()
    for key: BlobKey in ["bea", "beb", "bec"] { try store.remove(key) }
  }

  /// Fills the bin with files that the store knows, but whose former content it does not know.
  @Sendable private static func fillBinByAnother(_ store: BlobStore) throws {
    try fillBin(BlobStore(directory: store.directory, configuration: store.configuration))
    try store.store(payload, for: "keen", ttl: .seconds(1000))
  }

  @Sendable private static func fillBinAndReplace(_ store: BlobStore) throws {
    try fillBin(store)
    try store.store(payload, for: "key", ttl: .seconds(1000))
  }

  @Test(.enabled(if: SystemCall.hasUnnamedFiles), arguments: scenarios.filter(\.isPossible))
  func callsAreThoseOfTheDocument(scenario: Scenario) throws {
    let documented = try Self.documented()[scenario.name]
    let calls = try Self.calls(of: scenario)
    #expect(documented == calls, "\(scenario.name): \(calls)")
  }

  private static func calls(of scenario: Scenario) throws -> String {
    let cache = try Cache()
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), scenario.rootMode), "chmod")
    let trace = CallTrace(accessTimeTellsOwner: scenario.isOrdinary)
    func open() throws -> BlobStore {
      try cache.store(files: trace.files) {
        $0.recycling = scenario.recycles ? .automatic : .off
        scenario.change(&$0)
      }
    }
    let store = try open()
    try store.store(Self.payload, for: "key", ttl: .seconds(1000))
    try scenario.prepare(store)
    // The first change examines the directory and its control file.
    _ = try store.lock("key")
    _ = try store.unlock("key")
    // The next change opens the subdirectory.
    _ = try store.remove("keel")
    if !scenario.isFirstOfPages {
      let control = try #require(try store.core.controlFiles.found(in: store.core.root.openedOrMade()))
      for key: BlobKey in ["key", "kept", "kept out", "absent"] {
        try control.allocate(forChangeOf: store.core.path(for: key).digest)
      }
    }
    cache.clock.advance(by: 1)
    let user = try scenario.isNew ? open() : store
    _ = trace.take()
    try scenario.run(user)
    return trace.take().filter { !$0.call.isStep }.map { Self.name(of: $0.call) }.joined(separator: " ")
  }

  /// The tests cover each row of the document.
  @Test func allOfTheDocumentIsTested() throws {
    #expect(try Set(Self.documented().keys) == Set(Self.scenarios.map(\.name)))
  }

  /// Returns the name of a call in the document: its manual page and, for a lock, whether it is taken or released.
  private static func name(of call: SystemCall) -> String {
    switch call {
    case .open, .openDirectory, .openUnnamed: "openat"
    case .rename: "renameat"
    case .renameNoReplace, .renameExchange: "renameat2"
    case .link, .linkUnnamed: "linkat"
    case .unlink, .removeDirectory: "unlinkat"
    case .makeDirectory: "mkdirat"
    case .lockByte: "lock"
    case .unlockByte: "unlock"
    default: String(call.manualPage.prefix { $0 != "(" })
    }
  }

  /// Returns the rows `| operation | calls | ...` of the table whose second column is headed "System calls".
  private static func documented() throws -> [String: String] {
    var rows: [String: String] = [:]
    var isInTable = false
    for line in try Checkout.text("Spec/Performance.md").split(
      separator: "\n", omittingEmptySubsequences: false)
    {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      guard line.hasPrefix("|"), cells.count > 1 else {
        isInTable = false
        continue
      }
      if cells[1] == "System calls" { isInTable = true }
      if isInTable, cells[1] != "System calls", !cells[1].hasPrefix("---") { rows[cells[0]] = cells[1] }
    }
    return rows
  }
}

internal import BlobRecord
internal import BlobStore
internal import FuzzSupport

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// Arbitrary bytes in a chunk whose index is lost. A store must find the same records as a reader written from the
/// specification, also after changes, a collection, and another loss of the index.
@main
struct FuzzPack {
  static func main() {
    FuzzTarget.run { data, count in
      guard let input = PackInput(Array(UnsafeBufferPointer(start: data, count: count))) else { return -1 }
      do throws(BlobStoreError) {
        try FuzzPack.test(input, in: .only)
      } catch {
        violated("\(error)")
      }
      return 0
    }
  }

  static func test(_ input: PackInput, in workspace: PackWorkspace) throws(BlobStoreError) {
    let records = PackReference.walk(input)
    var expected = PackReference.newest(of: records.filter { $0.isSound && !isDead($0, in: input) })
    workspace.place(input)
    do {
      let store = try workspace.store()
      try check(expected, in: store)
      require(try listed(store).isSuperset(of: keys(of: expected)), "a record is not listed")
      try look(at: workspace, records)
      try store.store(Data("new".utf8), for: "\u{10FFFF}fuzz")
      if let (name, _) = expected.min(by: { $0.value.offset < $1.value.offset }), let key = key(of: name) {
        let outcome = try store.remove(key)
        require(outcome == .done, "a record cannot be removed")
        expected[name] = nil
      }
      try store.collect()
      try check(expected, in: store)
    }
    workspace.loseIndex()
    let store = try workspace.store()
    try check(expected, in: store)
    let new = try store.load("\u{10FFFF}fuzz")
    require(new?.payload == Data("new".utf8), "a new record is lost with the index")
  }

  /// Returns whether the record is dead. The planted bug ignores the dead bits.
  private static func isDead(_ record: PackReference.Record, in input: PackInput) -> Bool {
    PlantedBug.active != .raisesTheDead && input.isDead(record.offset)
  }

  private static func key(of name: [UInt8]) -> BlobKey? {
    String(validating: name, as: UTF8.self).flatMap { RecordNaming.encoded.key(ofFileName: $0) }
  }

  private static func keys(of records: [[UInt8]: PackReference.Record]) -> Set<BlobKey> {
    Set(records.keys.compactMap(key))
  }

  private static func listed(_ store: BlobStore) throws(BlobStoreError) -> Set<BlobKey> {
    var keys: Set<BlobKey> = []
    for entry in try store.records() { if let key = entry.key { keys.insert(key) } }
    return keys
  }

  private static func check(
    _ expected: [[UInt8]: PackReference.Record], in store: BlobStore
  ) throws(BlobStoreError) {
    for (name, record) in expected {
      guard let key = key(of: name) else { continue }
      do throws(BlobStoreError) {
        let payload = try store.load(key)?.payload
        require(
          payload == Data(record.payload),
          "a load of \(key) does not answer what the chunk says: \(payload.map { Array($0) } as Any)")
      } catch {
        // Spec/PackFormat.md leaves the rules of extensions to Spec/RecordFormat.md.
        guard error.code == .damaged, record.hasExtension else { throw error }
      }
    }
  }

  /// Checks that an inspection succeeds for every content of a pack.
  private static func look(at workspace: PackWorkspace, _ records: [PackReference.Record]) throws(BlobStoreError) {
    let store = try workspace.store()
    let chunk = try store.inspectPack(workspace.pack)?.chunk(0)
    require(chunk != nil || records.isEmpty, "a chunk with records cannot be looked at")
    _ = try store.verify()
    _ = try store.usage()
  }
}

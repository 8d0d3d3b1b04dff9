internal import BlobRecord
internal import BlobStore
internal import FuzzSupport
internal import Synchronization

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// An arbitrary file at the path of a record. A load returns its payload if and only if every rule holds, and each
/// operation fails only with the errors in the specification.
@main
struct FuzzRecord {
  static func main() {
    FuzzTarget.run { data, count in
      guard let input = RecordInput(Array(UnsafeBufferPointer(start: data, count: count))) else { return -1 }
      Workspace.clock.store(input.now.seconds, ordering: .relaxed)
      let workspace = Workspace.all[input.store % Workspace.all.count]
      do throws(BlobStoreError) {
        try FuzzRecord.test(input, in: workspace)
      } catch {
        violated("\(error)")
      }
      return 0
    }
  }

  static func test(_ input: RecordInput, in workspace: Workspace) throws(BlobStoreError) {
    let verdict = Verdict(input)
    workspace.place(input)
    try checkReadings(input, verdict, workspace)
    checkLoad(input, verdict, workspace, touching: false)
    if let left = workspace.content(of: input) {
      require(left == input.file, "a file was changed by looking at it")
      try checkChanges(input, verdict, workspace)
    } else {
      require(workspace.policy != .report, "a file was removed by looking at it")
    }
    try cleanUp(input, workspace)
  }

  // MARK: Looking

  /// Checks operations on the header, and enumerations.
  static func checkReadings(
    _ input: RecordInput, _ verdict: Verdict, _ workspace: Workspace
  ) throws(BlobStoreError) {
    let store = workspace.store
    let entries = Array(try store.records())
    require(entries.count == 1 && entries[0].key == input.key, "a file was not listed")
    let matches = Array(try store.records(prefix: input.key.string))
    require(matches.count == 1)
    let state = entries[0].state
    let usage = try store.usage()
    let report = try store.verify()
    require(usage.records + usage.damagedFiles == 1 && report.foreignFiles == 0)
    switch Verdict(input, readsPayload: false) {
    case .found: require(state == .live || state == .locked, "a good record is listed as \(state)")
    case .absent: require(state == .expired, "an expired record is listed as \(state)")
    case .damaged(let code): require(entries[0].damage?.code == code, "a damaged file is listed otherwise")
    }
    switch verdict {
    case .found: require(report.soundRecords == 1, "verify finds damage where there is none")
    case .absent: break
    case .damaged: require(report.damagedFiles == 1, "verify does not find damage")
    }
  }

  // MARK: Loading

  static func checkLoad(_ input: RecordInput, _ verdict: Verdict, _ workspace: Workspace, touching: Bool) {
    let loaded: Verdict
    do throws(BlobStoreError) {
      loaded = try workspace.store.load(input.key, touching: touching).map { .found(Array($0.payload)) } ?? .absent
    } catch {
      if error.code == .payloadTooLarge {
        require(input.file.count > 64 + 4096)
        return
      }
      guard error.code == .damaged, let recordError = error.recordError else { violated("\(error)") }
      loaded = planted(recordError, input) ?? .damaged(recordError.code)
    }
    if input.file.count > 64 + 4096 {
      // The size limit is checked first, so the rules of the payload are not evaluated.
      require(loaded == .absent || loaded == verdict || loaded == .damaged(103))
    } else {
      require(loaded == verdict, "a load does not answer what the file says")
    }
  }

  /// Returns the result of a library that does not verify the payload.
  static func planted(_ error: RecordError, _ input: RecordInput) -> Verdict? {
    guard PlantedBug.active == .trustsPayload else { return nil }
    return switch error {
    case .wrongPayloadSize, .payloadChecksumMismatch: .found(ReferenceBody(of: input.file).payload)
    default: nil
    }
  }

  // MARK: Changing

  static func checkChanges(
    _ input: RecordInput, _ verdict: Verdict, _ workspace: Workspace
  ) throws(BlobStoreError) {
    let store = workspace.store
    // A header can be changed if everything except the payload's bytes is valid.
    let isLive = outcome { () throws(BlobStoreError) in try store.touch(input.key) }
    switch Verdict(input, readsPayload: false, readsExtension: false) {
    case .found: require(isLive == .success(.done), "a good record cannot be touched")
    case .absent: require(isLive == .success(.notFound), "an expired record can be touched")
    case .damaged(let code): require(isLive == .failure(code), "a damaged file can be touched")
    }
    guard isLive == .success(.done) else {
      require(workspace.content(of: input) == input.file, "a file that could not be touched was changed")
      require(outcome { () throws(BlobStoreError) in try store.lock(input.key) } == isLive)
      require(outcome { () throws(BlobStoreError) in try store.unlock(input.key) } == isLive)
      return
    }
    let locks: UInt32 = input.file.integer(at: 8)
    do throws(BlobStoreError) {
      let locked = try store.lock(input.key)
      require(locked == .done && locks < .max)
      let header = try store.header(for: input.key)
      require(header?.refCount == locks + 1)
      let unlocked = try store.unlock(input.key)
      require(unlocked == .done)
    } catch {
      require(error.code == .lockCountOverflow && locks == .max, "\(error)")
    }
    guard let content = workspace.content(of: input) else { violated("a file was lost by a lock") }
    require(content.count == input.file.count, "a file's size was changed by a lock")
    require(content.dropFirst(64) == input.file.dropFirst(64), "a payload was changed by a lock")
    // Only the update time and the crc may differ.
    let same = [0..<24, 32..<60]
    require(same.allSatisfy { content[$0] == input.file[$0] }, "a field was changed that is not for changing")
    require(content.integer(at: 60) == ReferenceChecksum.crc32(content[..<60]))
    checkLoad(input, verdict, workspace, touching: true)
  }

  enum Answer: Equatable {
    case success(BlobStore.Outcome)
    /// The code of the violated rule.
    case failure(Int)
  }

  static func outcome(_ body: () throws(BlobStoreError) -> BlobStore.Outcome) -> Answer {
    do throws(BlobStoreError) {
      return .success(try body())
    } catch {
      guard let recordError = error.recordError else { violated("\(error)") }
      return .failure(recordError.code)
    }
  }

  // MARK: Removing

  static func cleanUp(_ input: RecordInput, _ workspace: Workspace) throws(BlobStoreError) {
    let store = workspace.store
    try store.collect()
    let isThere = workspace.content(of: input) != nil
    let removed = try store.remove(input.key)
    require(removed == (isThere ? .done : .notFound))
    require(workspace.content(of: input) == nil, "a removed file is still there")
    let report = try store.collect()
    require(report.examined == 0)
    try store.removeAll(.all)
  }
}

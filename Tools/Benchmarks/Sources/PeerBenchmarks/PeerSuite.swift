import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// The extent and the directory of a run.
struct Plan {
  let directory: FilePath
  let rounds: Int
  let operations: Int
  let sizes: [Int]
  let threads: [Int]
  let peers: [Peer]
  let filter: Set<Work>
  let python: Python?
  /// The number of entries in the caches that `open` opens.
  let manyEntries: Int
  /// The maximum bytes and entries that each cache holds during the measurements. The lower one applies.
  let residentBytes, residentEntries: Int
  /// The bytes and entries that each cache stored and removed before, as a cache with evictions has. They fill the
  /// store's recycling bin, and give the others space to reuse.
  let formerBytes, formerEntries: Int
  /// The bytes and entries in the caches that `disk` measures.
  let filledBytes, filledEntries: Int
  /// The bytes of each key.
  let keyByteCount: Int
  /// A Boolean value that indicates whether loads and replacements use random residents instead of recently stored
  /// entries, which a log-structured peer holds in memory.
  let scatters: Bool
  /// A Boolean value that indicates whether a `sync` writes the other peers' bytes to the medium before a peer that
  /// syncs is timed. It is slow, and afterwards the first write to each mapped page costs a page fault.
  let separates: Bool

  func includes(_ work: Work) -> Bool { filter.isEmpty || filter.contains(work) }
}

/// The identity of a measurement in the table.
struct Place: Hashable {
  let work: Work
  /// The payload's size in bytes.
  let bytes: Int
  let threads: Int
}

/// The results of one place of the table.
struct Measurement {
  let place: Place
  /// Microseconds per operation, with one element per round. The times of a round were measured in direct succession.
  /// For `disk`, one element with bytes on disk per byte.
  var values: [Peer: [Double]] = [:]
}

/// All measurements of a run.
///
/// Peers take turns in small rounds and in alternating order, so that other load on the machine affects all of them
/// equally. Unwritten bytes of other peers are written before the turn of a peer that waits for the medium, because
/// it would pay for them otherwise.
struct PeerSuite {
  let plan: Plan
  let progress: (String) -> Void

  func run() throws -> (measurements: [Measurement], absences: [(Peer, PeerAbsence)]) {
    let absences = try absences()
    let peers = plan.peers.filter { peer in !absences.contains { $0.0 == peer } }
    var measurements: [Measurement] = []
    if (Work.lifecycle + [.churn]).contains(where: plan.includes) {
      for size in plan.sizes { measurements += try rounds(peers, size: size) }
    }
    if plan.includes(.open) { measurements.append(try opening(peers.filter { $0.does(.open) })) }
    if plan.includes(.disk) {
      let peers = peers.filter { $0.does(.disk) }
      for size in plan.sizes { measurements.append(try disk(peers, size: size)) }
    }
    return (measurements, absences)
  }

  private func absences() throws -> [(Peer, PeerAbsence)] {
    try plan.peers.compactMap { peer in
      do {
        _ = try contender(peer, "trial", Payloads(size: 1))
        return nil
      } catch let absence as PeerAbsence {
        return (peer, absence)
      }
    }
  }

  private func contender(_ peer: Peer, _ name: String, _ payloads: Payloads) throws -> any Contender {
    let directory = plan.directory.appending("\(name)-\(peer.rawValue)")
    return try peer.contender(in: directory, payloads, plan.python)
  }

  private func remove(_ name: String, _ peers: [Peer]) throws {
    for peer in peers {
      let path = plan.directory.appending("\(name)-\(peer.rawValue)").string
      try FileManager.default.removeItem(atPath: path)
    }
  }

  // MARK: - Rounds

  /// The first key numbers of the kinds of work, which are far apart.
  private enum FirstKey {
    static let residents = 0
    static let lifecycle = 1 << 40
    static let absent = 1 << 41
    static let former = 1 << 42
  }

  private func rounds(_ peers: [Peer], size: Int) throws -> [Measurement] {
    progress("\(size) bytes")
    let payloads = Payloads(size: size, keyByteCount: plan.keyByteCount)
    // Creates the subdirectories, as a cache has after some use.
    _ = try RawFilesEngine(directory: plan.directory.appending("rounds-\(Peer.blobStore.rawValue)"))
    let contenders = try peers.map { try contender($0, "rounds", payloads) }
    // A turn writes at most about 4 MiB, because otherwise it would measure the disk's queue.
    let count = max(min(plan.operations, (4 << 20) / size), 4)
    // `churn` removes the oldest entries; the other work uses the last ones.
    let leaving = plan.scatters ? plan.threads.count * (plan.rounds + 1) * count : 0
    let residents = max(min(plan.residentEntries, plan.residentBytes / size), count, 2 * leaving)
    let lasting = FirstKey.residents + leaving..<FirstKey.residents + residents
    let former = payloads.entries(
      from: FirstKey.former, count: max(min(plan.formerEntries, plan.formerBytes / size), 1))
    for contender in contenders {
      try contender.fill(former, notesUses: true)
      try contender.fill(payloads.entries(from: FirstKey.residents, count: residents), notesUses: !plan.scatters)
      _ = try contender.perform(.remove, Batch(former), threads: 1)
    }
    if plan.scatters { try sync() }
    let isOfLifecycle = Work.lifecycle.contains(where: plan.includes)
    let lifecycle = isOfLifecycle ? Work.lifecycle.filter { plan.includes($0) || $0.changesWhatIsThere } : []
    let works = lifecycle + (plan.includes(.churn) ? [.churn] : [])
    var values: [Place: Measurement] = [:]
    var passes = 0
    var generator = SplitMix(seed: UInt64(size))
    // The first round warms up and verifies every loaded byte.
    for round in 0...plan.rounds {
      for threads in plan.threads {
        if plan.separates { try sync() }
        let verifies = round == 0
        let entries = payloads.entries(from: FirstKey.lifecycle + passes * count, count: count)
        for work in works {
          let batch: Batch
          switch work {
          case .miss:
            batch = Batch(payloads.entries(from: FirstKey.absent + passes * count, count: count))
          case .load where plan.scatters, .replace where plan.scatters:
            batch = Batch(
              payloads.entries(scatteredOver: lasting, count: count, using: &generator), isVerified: verifies)
          case .churn:
            let oldest = FirstKey.residents + passes * count
            batch = Batch(
              payloads.entries(from: oldest + residents, count: count),
              leaving: payloads.entries(from: oldest, count: count))
          default: batch = Batch(entries, isVerified: verifies)
          }
          let place = Place(work: work, bytes: size, threads: threads)
          for index in turns(of: contenders.count, in: round) where peers[index].does(work) {
            if plan.separates, work.writes, peers[index].syncs { try sync() }
            let duration = try contenders[index].perform(work, batch, threads: threads) / Double(count)
            guard round > 0 else { continue }
            values[place, default: Measurement(place: place)].values[peers[index], default: []].append(duration)
          }
        }
        passes += 1
      }
    }
    for contender in contenders { try contender.close() }
    try remove("rounds", peers)
    return plan.threads.flatMap { threads in
      works.filter(plan.includes).compactMap { values[Place(work: $0, bytes: size, threads: threads)] }
    }
  }

  private func sync() throws { try synchronizeFileSystem(of: plan.directory) }

  // MARK: - Whole caches

  /// Opens a cache for each of a few keys, and loads the key.
  private func opening(_ peers: [Peer]) throws -> Measurement {
    let size = 128
    let payloads = Payloads(size: size, keyByteCount: plan.keyByteCount)
    let all = payloads.entries(from: FirstKey.residents, count: plan.manyEntries)
    let contenders = try peers.map { peer in
      progress("filling \(peer.title) with \(all.count) entries")
      let contender = try contender(peer, "open", payloads)
      try contender.fill(all, notesUses: true)
      return contender
    }
    progress("opening")
    let few = Batch((0..<5).map { all[$0 * (all.count / 5)] })
    var measurement = Measurement(place: Place(work: .open, bytes: size, threads: 1))
    // The number of rounds is limited because some peers sync when they open, which is slow.
    for round in 0...min(plan.rounds, 11) {
      for index in turns(of: contenders.count, in: round) {
        let duration = try contenders[index].perform(.open, few, threads: 1) / Double(few.entries.count)
        if round > 0 { measurement.values[peers[index], default: []].append(duration) }
      }
    }
    for contender in contenders { try contender.close() }
    try remove("open", peers)
    return measurement
  }

  /// Fills and removes one cache after another, so that the disk holds only one.
  private func disk(_ peers: [Peer], size: Int) throws -> Measurement {
    progress("bytes on disk of \(size) bytes")
    let payloads = Payloads(size: size, keyByteCount: plan.keyByteCount)
    let count = max(min(plan.filledEntries, plan.filledBytes / size), 1)
    let entries = payloads.entries(from: FirstKey.residents, count: count)
    var measurement = Measurement(place: Place(work: .disk, bytes: size, threads: 1))
    for peer in peers {
      let contender = try contender(peer, "disk", payloads)
      try contender.fill(entries, notesUses: true)
      try contender.close()
      // Some file systems allocate blocks only during writeback.
      try sync()
      let used = try allocatedBytes(below: plan.directory.appending("disk-\(peer.rawValue)"))
      measurement.values[peer] = [Double(used) / Double(count * size)]
      try remove("disk", [peer])
    }
    return measurement
  }

  /// Returns the bytes of all blocks, including directories, as du(1) counts them.
  private func allocatedBytes(below directory: FilePath) throws -> Int64 {
    func blocks(_ path: String) throws -> Int64 {
      var status = stat()
      try BenchmarkFailure.check(lstat(path, &status), path)
      // The unit is always 512 bytes, independent of the file system's block size.
      return Int64(status.st_blocks) * 512
    }
    let root = directory.string
    guard let walk = FileManager.default.enumerator(atPath: root) else { throw BenchmarkFailure("cannot walk \(root)") }
    return try walk.reduce(into: try blocks(root)) { sum, name in
      if let name = name as? String { sum += try blocks(root + "/" + name) }
    }
  }
}

import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// How much is measured, and where.
struct Plan {
  let directory: FilePath
  let rounds: Int
  let operations: Int
  let sizes: [Int]
  let threads: [Int]
  let peers: [Peer]
  let filter: Set<Work>
  let python: Python?
  /// Entries of the caches that `open` opens.
  let manyEntries: Int
  /// Bytes that each cache holds while it is worked on, and entries, whichever is less.
  let residentBytes, residentEntries: Int
  /// What each cache has held and removed before, as a cache that evicts has. Then the store's recycling bin is full,
  /// and the others have space to reuse.
  let formerBytes, formerEntries: Int
  /// What the caches that `disk` measures are filled with.
  let filledBytes, filledEntries: Int
  /// Of each key.
  let keyByteCount: Int
  /// Whether loads and replacements are of any residents, not of what was stored a moment ago. That lies in what a
  /// log-structured peer has in memory.
  let scatters: Bool
  /// Whether a `sync` puts the bytes of the other peers on the medium before a peer that syncs is timed. It takes a
  /// while. After it each mapped page is written to as if for the first time, which costs a page fault.
  let separates: Bool

  func includes(_ work: Work) -> Bool { filter.isEmpty || filter.contains(work) }
}

/// What is measured in one place of the table.
struct Place: Hashable {
  let work: Work
  /// The payload's size.
  let bytes: Int
  let threads: Int
}

/// What was measured there.
struct Measurement {
  let place: Place
  /// Microseconds per operation, one element a round; those of one round were measured one right after the other. Of
  /// `disk`, one element: bytes per byte.
  var values: [Peer: [Double]] = [:]
}

/// All measurements of a run.
///
/// Peers take turns in small rounds, each in the opposite order of the one before. So other work of the machine meets
/// all of them alike. What others have left to be written is written before the turn of a peer that waits for the
/// medium, lest it pay for them.
struct PeerSuite {
  let plan: Plan
  /// Called with what is about to be measured.
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

  /// Where the keys of one kind of work begin, far from those of the others.
  private enum FirstKey {
    static let residents = 0
    static let lifecycle = 1 << 40
    static let absent = 1 << 41
    static let former = 1 << 42
  }

  private func rounds(_ peers: [Peer], size: Int) throws -> [Measurement] {
    progress("\(size) bytes")
    let payloads = Payloads(size: size, keyByteCount: plan.keyByteCount)
    // A cache that has been used for a while has its subdirectories.
    _ = try RawFilesEngine(directory: plan.directory.appending("rounds-\(Peer.blobStore.rawValue)"))
    let contenders = try peers.map { try contender($0, "rounds", payloads) }
    // A turn writes 4 MiB or so at the most, lest it be the disk's queue that is measured.
    let count = max(min(plan.operations, (4 << 20) / size), 4)
    // `churn` takes the oldest, and the others last.
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
    // The first round warms up, and looks at every byte that is loaded.
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

  /// A few keys, each loaded by a cache that is opened for it.
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
    // Some peers sync when they open, which takes a while.
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

  /// One cache after the other, so that no more than one lies on the disk.
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
      // Some file systems give blocks only when they write.
      try sync()
      let used = try allocatedBytes(below: plan.directory.appending("disk-\(peer.rawValue)"))
      measurement.values[peer] = [Double(used) / Double(count * size)]
      try remove("disk", [peer])
    }
    return measurement
  }

  /// Bytes of all blocks, of directories too, as du(1) counts them.
  private func allocatedBytes(below directory: FilePath) throws -> Int64 {
    func blocks(_ path: String) throws -> Int64 {
      var status = stat()
      try BenchmarkFailure.check(lstat(path, &status), path)
      // In units of 512, whatever the file system's own are.
      return Int64(status.st_blocks) * 512
    }
    let root = directory.string
    guard let walk = FileManager.default.enumerator(atPath: root) else { throw BenchmarkFailure("cannot walk \(root)") }
    return try walk.reduce(into: try blocks(root)) { sum, name in
      if let name = name as? String { sum += try blocks(root + "/" + name) }
    }
  }
}

import BlobStore
import CVolumes
import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// A worker's operations on a volume whose disk logs its writes.
struct LoggedSession {
  struct Step {
    var operation: FaultOperation
    var began: UInt64
    var ended: UInt64
    var result: OperationResult
  }

  let fileSystem: Volume.FileSystem
  let durability: BlobStore.Durability
  /// A Boolean value that indicates whether small records are stored in packs.
  let packs: Bool
  let keys = ["subject", "su-1", "a", "other"]
  private(set) var steps: [Step] = []
  let log: BlockLog
  /// The image of the volume before the session.
  let base: String
  private let directory: TemporaryDirectory

  struct Stuck: Error {
    let operation: FaultOperation
    let result: OperationResult?
  }

  /// - Parameter missing: A planted bug of the worker.
  init(
    _ fileSystem: Volume.FileSystem, _ durability: BlobStore.Durability, packs: Bool = false, operations count: Int,
    seed: UInt64, missing: MissingSync? = nil
  ) throws {
    self.fileSystem = fileSystem
    self.durability = durability
    self.packs = packs
    directory = try TemporaryDirectory(inMemory: true)
    base = directory.path.string + "/base"
    let volume = try Volume(fileSystem, megabytes: fileSystem == .xfs ? 320 : 32, isMounted: false)
    try ChildProcess.runSuccessfully(["cp", "--sparse=always", volume.image, base])
    let disk = try LoggedDisk(volume.image, in: directory)
    try volume.mount(disk.path)
    let worker = try Worker(volume.cache, missing?.durability ?? durability, packs: packs, plant: missing?.plant)
    let byteCounts = MissingSync.byteCounts(missing, packs: packs)
    var operations = VolumeOperations(keys: keys, byteCounts: byteCounts, seed: seed)
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<count {
      let operation = operations.next()
      let began = BlockLog.now()
      let answer = worker.run(operation)
      guard let result = answer, result.outcome != .failed else { throw Stuck(operation: operation, result: answer) }
      steps.append(Step(operation: operation, began: began, ended: BlockLog.now(), result: result))
      if packs { try WriteBack.byChance(in: volume.cache, using: &generator) }
    }
    worker.kill()
    try volume.unmount()
    try disk.end()
    log = try BlockLog(contentsOf: disk.log)
  }

  /// Returns the states that are allowed after a power cut at a time.
  func oracle(at time: UInt64) -> PowerCutOracle {
    var oracle = PowerCutOracle(durability, keys: keys, on: DirectoryState(), packs: packs)
    for step in steps where step.began < time {
      oracle.begin(step.operation)
      // Other tests check the results.
      if step.ended < time { _ = oracle.end(step.operation, step.result) }
    }
    return oracle
  }
}

/// A disk that is served by a separate process.
final class LoggedDisk {
  let path: String
  let log: String
  private let process: ChildProcess
  private var isMounted = true

  struct NotReady: Error {}

  init(_ image: String, in directory: TemporaryDirectory) throws {
    path = directory.path.string + "/disk"
    log = directory.path.string + "/log"
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    let output = Pipe()
    process = try ChildProcess(
      [Programs.built("blocklog").path, image, path, log], output: output, errors: FileHandle.standardError)
    try output.fileHandleForWriting.close()
    guard !output.fileHandleForReading.availableData.isEmpty else { throw NotReady() }
  }

  deinit {
    guard isMounted else { return }
    _ = volume_abandon(path)
    process.send(SIGTERM)
  }

  /// Unmounts the volume and waits until the log is complete.
  func end() throws {
    let error = volume_unmount(path)
    guard error == 0 else { throw Volume.CallFailed(what: "umount \(path)", errno: error) }
    isMounted = false
    process.wait()
  }
}

internal import BlobRecord
internal import BlobStore
internal import FuzzSupport
internal import Synchronization
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The cache directory of one fuzz process with its store.
struct Workspace {
  let directory: FilePath
  let store: BlobStore
  let policy: BlobStore.DamagePolicy

  /// The seconds of the clock that all stores share. libFuzzer calls the target from a single thread.
  static let clock = Atomic(Int64(0))

  /// A workspace for each damage policy, created on first use.
  static let all: [Workspace] = BlobStore.DamagePolicy.allCases.map { policy in
    let directory = FilePath(getenv("BLOBCACHE_FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp")
      .appending("blobcache-fuzz-\(getpid())-\(policy.rawValue)")
    require(mkdir(directory.string, 0o700) == 0, "\(directory) cannot be made")
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout.arrangement = .prefix
    configuration.damagePolicy = policy
    configuration.limits.payload = 4096
    configuration.durability = .none
    configuration.now = { UnixTime(seconds: clock.load(ordering: .relaxed)) }
    do {
      return Workspace(
        directory: directory, store: try BlobStore(directory: directory, configuration: configuration), policy: policy)
    } catch {
      violated("\(error)")
    }
  }

  private func path(of input: RecordInput) -> FilePath {
    let subdirectory = RecordLayout().subdirectory(ofFileName: input.fileName)
    return (subdirectory.isEmpty ? directory : directory.appending(subdirectory)).appending(input.fileName)
  }

  /// Writes the input's file at the path of its key's record.
  func place(_ input: RecordInput) {
    let path = path(of: input)
    _ = mkdir(path.removingLastComponent().string, 0o700)
    do {
      let file = try FileDescriptor.open(
        path, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
      try file.closeAfter { _ = try file.writeAll(input.file) }
    } catch {
      violated("\(path): \(error)")
    }
  }

  /// Returns the current content of the file, or `nil` if the file does not exist.
  func content(of input: RecordInput) -> [UInt8]? {
    guard let file = try? FileDescriptor.open(path(of: input), .readOnly) else { return nil }
    var content = [UInt8](repeating: 0, count: 8192)
    do {
      let count = try file.closeAfter {
        try content.withUnsafeMutableBytes { try file.read(into: $0) }
      }
      return Array(content.prefix(count))
    } catch {
      violated("\(error)")
    }
  }
}

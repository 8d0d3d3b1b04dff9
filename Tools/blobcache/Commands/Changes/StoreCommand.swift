internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Posix
internal import SystemPackage
internal import TextFormats

struct StoreCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Store a blob, and replace an earlier one of the key.",
    discussion: "The directory is made if it is missing.")

  static let examples = [
    Example("Keep a file for six hours after now", "blobcache store cache album/42 cover.png --ttl 6h"),
    Example(
      "Keep what a program prints until a limit evicts it",
      "tar c photos | blobcache store cache photos.tar --ttl never"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The key.")
  var key: String

  @Argument(help: "The payload; - or nothing for standard input.")
  var file: FilePath?

  @Option(
    name: .customLong("ttl"), parsing: .unconditional,
    help: ArgumentHelp(
      "Time to live, or never; 0 or nothing for the default, counted from the last access.", valueName: "d"),
    transform: TimeToLive.read)
  var timeToLive: TimeToLive?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "What lies beside the payload, such as a content type: up to 4 KiB; @FILE for what a file holds.",
      valueName: "text"))
  var extendedData: ExtendedDataArgument?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Store the payload only if it has this size, such as 4096 or 10MB.", valueName: "size"),
    transform: ByteCount.read)
  var size: ByteCount?

  @Flag(help: "Remove the file once its blob is stored.")
  var move = false

  @Flag(help: "Lock the blob once.")
  var locked = false

  @Flag(help: "Keep the locks of the blob that is replaced.")
  var keepLocks = false

  @Flag(help: "Let `load --follow` read the blob while it is stored. The old one goes at once.")
  var visible = false

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    guard !move || file.map({ $0 != "-" }) ?? false else {
      throw ValidationError("--move takes a file, not standard input.")
    }
    guard !move || !visible else { throw ValidationError("--move is for stores that are not --visible.") }
  }

  func answer(_ output: inout Output) throws -> Answer {
    try checkInput()
    let store = try options.storeToWrite(at: directory, creatingDirectory: true)
    let ttl = timeToLive?.duration
    let extendedData = try extendedData?.data()
    let source =
      if let file, file != "-" {
        try store.payloadSource(at: file, for: BlobKey(key), waits: true)
      } else {
        store.payloadSource(of: .standardInput)
      }
    let total = source.canBeReadAgain ? source.byteCount : size?.bytes
    let bar = TransferBar(key, total: total, quiet: options.quiet)
    let byteCount: Int64
    if visible {
      var writer = try store.openWriter(
        for: BlobKey(key), ttl: ttl, locks: locks, expectedSize: size?.bytes, extendedData: extendedData,
        visibility: .whileWriting)
      try writer.append(from: source, waiting: true) { bar?.add($0) }
      byteCount = Int64(clamping: try writer.commit().payloadSize)
    } else {
      byteCount = try store.store(
        source, for: BlobKey(key), ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: size?.bytes
      ) { bar?.add($0) }
      if move { try source.removeFile(storedAs: BlobKey(key)) }
    }
    if options.json {
      var result = JSONObject(operation: "store", key: key, result: "done")
      result.add("payloadSize", byteCount)
      result.add("ttl", timeToLive?.seconds ?? 0)
      output.line(result)
    } else if !options.quiet {
      let time = (timeToLive ?? .directoryDefault).description
      output.line("\(key.printable): stored, \(ByteCount(byteCount)), ttl \(time)\(locked ? ", locked" : "")")
      if timeToLive == nil, !locked { DefaultExpirationNote.report(store) }
    }
    return .done
  }

  private var locks: BlobStore.LockPolicy {
    if keepLocks { locked ? .keepOrOne : .keep } else { locked ? .one : .none }
  }

  /// Rejects a directory as the input before the store creates the cache directory.
  private func checkInput() throws {
    let input = file.flatMap { $0 == "-" ? nil : $0 }
    // The store reports every other error of the input.
    guard (try? Files().status(of: input ?? "/dev/stdin"))?.type == .directory else { return }
    throw CommandFailure(
      "store \"\(key)\": read(2) of the input: \(Errno.isDirectory): \(input?.string ?? "standard input")")
  }
}

internal import TextFormats

#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobRecord
  internal import SystemPackage

  #if canImport(FoundationEssentials)
    internal import FoundationEssentials
  #else
    internal import Foundation
  #endif

  struct PutCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "put", abstract: "Store a file, or standard input, as the blob of a key.",
      discussion: "The earlier blob of the key goes. Machines that have a copy of it keep that until its end.")

    @OptionGroup var options: RemoteOptions

    @Argument(help: ArgumentHelp("The blob's key.", valueName: "key"))
    var key: String

    @Argument(help: ArgumentHelp("The file; - or nothing for standard input.", valueName: "file"))
    var file: FilePath = "-"

    @Option(
      name: .customLong("ttl"), parsing: .unconditional,
      help: ArgumentHelp("How long the blob lives, such as 6h, or never, which goes without saying.", valueName: "d"),
      transform: DefaultTimeToLive.read)
    var timeToLive: DefaultTimeToLive?

    func validate() throws {
      // For a directory, 0 selects its default. An engine has no default.
      guard timeToLive?.duration != .zero else { throw ValidationError("--ttl: it is above zero, or never") }
    }

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      let payload = try Self.bytes(of: file)
      let seconds = timeToLive?.duration.components.seconds ?? .max
      try await records.store(payload, for: BlobKey(key), ttl: seconds)
      if options.json {
        var object = JSONObject(type: "remoteResult")
        object.add("operation", "put")
        object.add("key", key)
        object.add("payloadSize", Int64(payload.count))
        object.add("ttl", seconds)
        output.line(object)
      }
      return .done
    }

    private static func bytes(of file: FilePath) throws -> Data {
      do {
        guard file != "-" else { return try read(.standardInput) }
        let descriptor = try FileDescriptor.open(file, .readOnly)
        return try descriptor.closeAfter { try read(descriptor) }
      } catch let error as Errno {
        throw CommandFailure("\(file): cannot be read: \(error)")
      }
    }

    private static func read(_ descriptor: FileDescriptor) throws -> Data {
      var content = Data()
      let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 1)
      defer { piece.deallocate() }
      while true {
        let count = try descriptor.read(into: piece)
        guard count > 0 else { return content }
        content.append(contentsOf: piece[..<count])
      }
    }
  }
#endif

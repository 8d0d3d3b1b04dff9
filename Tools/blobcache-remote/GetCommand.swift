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

  struct GetCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "get", abstract: "Write the payload of a key to standard output, or to a file.",
      discussion: "What is there is judged by every rule of the format before a byte of it is written.")

    @OptionGroup var options: RemoteOptions

    @Argument(help: ArgumentHelp("The blob's key.", valueName: "key"))
    var key: String

    @Flag(help: "Write the bytes of the object, whatever they are: the record with its header.")
    var record = false

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp("Refuse a larger object, which is held in memory; 1GiB if not given.", valueName: "size"))
    var largest: ByteCount?

    @Option(
      name: .shortAndLong, parsing: .unconditional,
      help: ArgumentHelp("The file, which is replaced as a whole; - for standard output.", valueName: "file"))
    var output: FilePath = "-"

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      let key = BlobKey(key)
      var records = records
      if let largest { records.largestObject = largest.bytes }
      let found = record ? try await records.bytes(of: key) : try await records.load(key)?.payload
      guard let found else {
        StandardError.report("get \"\(key)\": \(records.engine.name) has no such blob")
        return .no
      }
      if self.output == "-" {
        output.write(found.bytes)
      } else {
        try OutputFile(path: self.output).write { append in try append(found.bytes) }
      }
      return .done
    }
  }
#endif

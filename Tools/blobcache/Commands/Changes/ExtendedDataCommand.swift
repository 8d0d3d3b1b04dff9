internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

struct ExtendedDataCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "extended-data", abstract: "Print or replace what lies beside a blob's payload.",
    discussion: """
      Extended data are up to 4 KiB, such as a content type. The payload, the locks and the age of the blob stay as they \
      are.
      """)

  static let examples = [
    Example("Print the content type that a blob was stored with", "blobcache extended-data cache album/42"),
    Example("Replace it", "blobcache extended-data cache album/42 --set image/png"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The key.")
  var key: String

  @Option(
    name: .customLong("set"), parsing: .unconditional,
    help: ArgumentHelp("What is to lie beside the payload; @FILE for what a file holds.", valueName: "text"))
  var new: ExtendedDataArgument?

  @Flag(help: "Take away what lies beside the payload.")
  var clear = false

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    guard new == nil || !clear else { throw ValidationError("--set and --clear exclude each other") }
  }

  func answer(_ output: inout Output) throws -> Answer {
    try new == nil && !clear ? answerWithData(&output) : replaceData(&output)
  }

  private func answerWithData(_ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    guard try store.contains(BlobKey(key)) else { return notFound(store) }
    let data = try store.extendedData(for: BlobKey(key))
    if options.json {
      var result = JSONObject(operation: "extended-data", key: key, result: "done")
      result.add(extendedData: data)
      output.line(result)
    } else if let data {
      output.write(data.bytes)
    }
    return .done
  }

  private func replaceData(_ output: inout Output) throws -> Answer {
    let store = try options.storeToWrite(at: directory)
    let data = try new?.data()
    guard try store.setExtendedData(data, for: BlobKey(key)) == .done else { return notFound(store) }
    if options.json {
      output.line(JSONObject(operation: "extended-data", key: key, result: "done"))
    } else if !options.quiet {
      output.line("\(key.printable): extended data of \(ByteCount(data?.count ?? 0))")
    }
    return .done
  }

  private func notFound(_ store: BlobStore) -> Answer {
    StandardError.report("\(key): not found")
    store.reportForeignRecord(for: BlobKey(key))
    _ = WrongDirectory.answer(directory, options)
    return .no
  }
}

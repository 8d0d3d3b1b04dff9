internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

struct LoadCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "load", abstract: "Write a blob's payload to standard output or to a file.")

  static let examples = [
    Example("Get a blob back into a file", "blobcache load cache album/42 --output copy.png"),
    Example("Look at a blob without counting as a use", "blobcache load cache album/42 --no-touch | wc -c"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The key.")
  var key: String

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      """
      Write to this file instead, which is replaced as a whole or not at all, but a device or a pipe written to; - for \
      standard output.
      """, valueName: "file"))
  var output: FilePath?

  @Flag(help: "Leave the time of the last access as it is.")
  var noTouch = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ standardOutput: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    let blob: Blob?
    do throws(BlobStoreError) {
      blob = try store.load(BlobKey(key), touching: !noTouch)
    } catch {
      guard let damage = error.recordError else { throw error }
      StandardError.report("\(key): damaged: \(damage.name); \(Remedy.ofDamage)")
      return .no
    }
    guard let blob else {
      StandardError.report("\(key): not found")
      store.reportForeignRecord(for: BlobKey(key))
      _ = WrongDirectory.answer(directory, options)
      return .no
    }
    guard let output, !OutputFile(path: output).isStandardOutput else {
      standardOutput.write(blob.payload.bytes)
      return .done
    }
    do {
      try OutputFile(path: output).write(blob.payload.bytes)
    } catch {
      throw CommandFailure("load \"\(key)\": \(error)")
    }
    if options.json {
      var result = JSONObject(operation: "load", key: key, result: "done")
      result.add("payloadSize", blob.payload.count)
      standardOutput.line(result)
    }
    return .done
  }
}

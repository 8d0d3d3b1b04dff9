internal import TextFormats

#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobRecord

  struct RemoveCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "remove", abstract: "Remove the blob of a key, if it is there.",
      discussion: "Machines that have a copy keep that until its end.")

    @OptionGroup var options: RemoteOptions

    @Argument(help: ArgumentHelp("The blob's key.", valueName: "key"))
    var key: String

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      try await records.remove(BlobKey(key))
      if options.json {
        var object = JSONObject(type: "remoteResult")
        object.add("operation", "remove")
        object.add("key", key)
        output.line(object)
      }
      return .done
    }
  }
#endif

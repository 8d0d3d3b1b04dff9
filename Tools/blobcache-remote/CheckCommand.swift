internal import TextFormats

#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands

  struct CheckCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "check", abstract: "Try an engine, and print what it can do.",
      discussion: """
        What only a try can tell is tried with an object of its own, which is removed again: it needs the right to write. \
        Where something is wrong, the message names the setting.
        """)

    @OptionGroup var options: RemoteOptions

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      let name = records.engine.name
      do {
        let capabilities = try await records.capabilities()
        if options.json {
          output.line(Self.object(name, capabilities))
        } else {
          output.line("\(name): answers")
          for (what, value) in Self.table(capabilities) { output.line("  \(what.padded(to: 32))\(value)") }
          for note in capabilities.notes { output.line("  \(note)") }
        }
        return .done
      } catch let error as RemoteError {
        if options.json {
          var object = JSONObject(type: "remoteCheck")
          object.add("engine", name)
          object.add("answers", false)
          object.add("message", error.message)
          output.line(object)
        } else {
          StandardError.report("check: \(error.message)")
        }
        return .no
      }
    }

    private static func table(_ capabilities: RemoteCapabilities) -> [(what: String, value: String)] {
      func word(_ has: Bool) -> String { has ? "yes" : "no" }
      return [
        ("puts that only make", word(capabilities.conditionalPut)),
        ("puts that only replace", word(capabilities.conditionalReplace)),
        ("drops objects at their end", word(capabilities.expiry)), ("lists names", word(capabilities.lists)),
        ("removes objects", word(capabilities.removes)),
        ("large objects in pieces", word(capabilities.streams)), ("leases", word(capabilities.leases)),
        ("announcements", word(capabilities.announcements)),
        ("largest object", capabilities.largestObject.map { ByteCount($0).description } ?? "no limit is known"),
      ]
    }

    private static func object(_ name: String, _ capabilities: RemoteCapabilities) -> JSONObject {
      var object = JSONObject(type: "remoteCheck")
      object.add("engine", name)
      object.add("answers", true)
      object.add("conditionalPut", capabilities.conditionalPut)
      object.add("conditionalReplace", capabilities.conditionalReplace)
      object.add("expiry", capabilities.expiry)
      object.add("lists", capabilities.lists)
      object.add("removes", capabilities.removes)
      object.add("streams", capabilities.streams)
      object.add("leases", capabilities.leases)
      object.add("announcements", capabilities.announcements)
      object.add("largestObject", capabilities.largestObject)
      object.add("notes", capabilities.notes)
      return object
    }
  }
#endif

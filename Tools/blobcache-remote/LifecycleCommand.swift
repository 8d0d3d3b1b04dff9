#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands

  struct LifecycleCommand: RemoteSubcommand {
    static let configuration = CommandConfiguration(
      commandName: "lifecycle", abstract: "Print what removes expired records there, and asks the engine nothing.",
      discussion: """
        For S3, a configuration that `aws s3api put-bucket-lifecycle-configuration --bucket BUCKET \
        --lifecycle-configuration file://FILE` installs. It replaces all rules of the bucket: add to them what others need. \
        For other engines, a line of text.
        """)

    @OptionGroup var options: RemoteOptions

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp("Remove objects this many whole days after their store.", valueName: "n"))
    var days = 30

    func validate() throws {
      guard days > 0 else { throw ValidationError("--days must be above zero.") }
    }

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer {
      switch options.url.prefix(while: { $0 != ":" }).lowercased() {
      case "s3": output.line(Self.rule(records.namespace.name, days: days))
      case "http", "https":
        output.line(
          "Nothing to install: what the server removes is its own matter; blobcache serve --collect-every does.")
      default: output.line("Nothing to install: each object ends by itself, when its record does.")
      }
      return .done
    }

    /// - Parameter namespace: The namespace, which contains no control characters.
    private static func rule(_ namespace: String, days: Int) -> String {
      let prefix = namespace.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "/"
      return """
        {
          "Rules": [
            {
              "ID": "blobcache \(prefix)",
              "Status": "Enabled",
              "Filter": { "Prefix": "\(prefix)" },
              "Expiration": { "Days": \(days) },
              "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": 1 }
            }
          ]
        }
        """
    }
  }
#endif

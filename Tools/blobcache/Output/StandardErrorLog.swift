internal import Logging

/// The libraries' warnings, as the tool's own messages.
struct StandardErrorLog: LogHandler {
  var logLevel: Logger.Level
  var metadata: Logger.Metadata = [:]

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    StandardError.report("\(event.message)")
  }
}

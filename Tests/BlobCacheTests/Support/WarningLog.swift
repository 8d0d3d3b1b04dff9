import Logging

/// Records the warnings of a cache.
struct WarningLog: LogHandler {
  let log: Log<String>
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.warning

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { log.append("\(event.message)") }
}

package import Logging

/// A log handler that prints the libraries' warnings as messages of the tool.
package struct StandardErrorLog: LogHandler {
  package var logLevel: Logger.Level
  package var metadata: Logger.Metadata = [:]

  package init(logLevel: Logger.Level) {
    self.logLevel = logLevel
  }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    StandardError.report("\(event.message)")
  }
}

package import BlobRecord

/// How the last program that changed a directory sees it: what `Configuration(following:)` goes by.
package struct DirectoryHint: Hashable, Sendable {
  /// Seconds.
  package var defaultExpiration: Int64
  /// Bytes; nil for no limit.
  package var sizeLimit: Int64?
  package var layout: RecordLayout

  package init(defaultExpiration: Int64, sizeLimit: Int64? = nil, layout: RecordLayout = RecordLayout()) {
    self.defaultExpiration = defaultExpiration
    self.sizeLimit = sizeLimit
    self.layout = layout
  }
}

package import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
package import SystemPackage

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

extension BlobStore {
  /// The hint that lies in a directory.
  ///
  /// - Returns: nil if there is none: no library program has changed the directory yet, or it cannot be read.
  package static func hint(at directory: FilePath) throws(BlobStoreError) -> DirectoryHint? {
    try reporting("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let root = try RootDirectory.Opened(directory, files.budget)
      do {
        return try root.controlFile(Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() }))?.hint
      } catch {
        // A hint that may not be read is no hint; whoever asked has defaults.
        return nil
      }
    }
  }
}

extension ControlFile {
  /// Numbers that stand for the namings in the hint.
  private static let namings: [RecordNaming] = [.encoded, .verbatim, .sha256]

  var hint: DirectoryHint? {
    guard let words = hintWords(), words[0] == 1, let naming = Int(exactly: words[3]),
      Self.namings.indices.contains(naming)
    else { return nil }
    return DirectoryHint(
      defaultExpiration: words[1], sizeLimit: words[2] > 0 ? words[2] : nil,
      layout: RecordLayout(naming: Self.namings[naming], separatesDirectories: words[4] != 0))
  }

  /// Programs that see a directory differently overwrite each other's hint word by word: it is only a hint.
  func setHint(_ hint: DirectoryHint) {
    let words = [
      1, hint.defaultExpiration, hint.sizeLimit ?? 0, Int64(Self.namings.firstIndex(of: hint.layout.naming) ?? 0),
      hint.layout.separatesDirectories ? 1 : 0,
    ]
    setHintWords(words)
  }
}

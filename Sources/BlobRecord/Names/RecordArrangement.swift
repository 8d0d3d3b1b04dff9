/// Which subdirectory a record lies in. Spec/RecordFormat.md, "Subdirectories".
public enum RecordArrangement: String, CaseIterable, Sendable {
  /// The one named by the first two UTF-16 code units of the file name, as in SPTPersistentCache.
  ///
  /// Keys with a common start, such as URLs, all lie in one. There, a collection looks at all of them after one has changed.
  case prefix
  /// One of 1,024, named by the low ten bits of the file name's digest: how new directories are arranged.
  case spread
  /// None: all records lie at the root.
  case flat
}

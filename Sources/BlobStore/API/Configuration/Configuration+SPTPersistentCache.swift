internal import BlobRecord

extension BlobStore.Configuration {
  /// For a directory that SPTPersistentCache reads too: keys as they are as names, in subdirectories.
  ///
  /// Keys with `/`, NUL or a leading `.` have no name there, nor have keys of more than 255 bytes. For a cache without
  /// `useDirectorySeparation`, set `layout.separatesDirectories` to false. In any other layout, each library finds only
  /// some of the other's records.
  public static var sptPersistentCache: BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.layout = Layout(naming: .verbatim, arrangement: .prefix)
    return configuration
  }
}

internal import BlobCache

extension RemoteName {
  /// The object that is a lease of this one. No key's record has such a name: an escape follows each `%` in those.
  var lease: RemoteName { RemoteName("\(string)%lease") }
}

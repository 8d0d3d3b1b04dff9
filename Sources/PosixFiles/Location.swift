package import SystemPackage

/// A place in the file system: a directory's path and a name relative to it, joined only when somebody looks.
///
/// Descriptors carry one for their errors; copying it allocates nothing.
package struct Location: Sendable {
  package let directory: FilePath
  /// Relative to the directory; empty for the directory itself.
  package let name: String

  package init(_ directory: FilePath, _ name: String = "") {
    self.directory = directory
    self.name = name
  }

  package var path: FilePath { name.isEmpty ? directory : directory.appending(name) }
}

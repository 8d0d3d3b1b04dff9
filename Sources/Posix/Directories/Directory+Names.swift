internal import CPosix
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// What has which name.
extension Directory {
  /// - Returns: false if there was no such file.
  package func unlink(_ name: String) throws(FileError) -> Bool {
    do {
      try files.perform(.unlink, at(name)) { unsafe name.withCString { unsafe unlinkat(descriptor, $0, 0) } }
      return true
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return false
    }
  }

  package func rename(_ name: String, to newName: String, in target: borrowing Directory) throws(FileError) {
    let targetDescriptor = target.descriptor
    try files.perform(.rename, target.at(newName)) {
      unsafe name.withCString { old in
        unsafe newName.withCString { new in unsafe renameat(descriptor, old, targetDescriptor, new) }
      }
    }
  }

  /// Exchanges the names of two files by one call.
  ///
  /// Neither name is ever without a file.
  ///
  /// - Returns: false where the file system cannot do it.
  /// - Throws: ENOENT if either is missing.
  package func exchange(
    _ name: String, with otherName: String, in other: borrowing Directory
  ) throws(FileError) -> Bool {
    let otherDescriptor = other.descriptor
    do {
      try files.perform(.renameExchange, other.at(otherName)) {
        unsafe name.withCString { first in
          unsafe otherName.withCString { second in
            unsafe blob_rename_exchange(descriptor, first, otherDescriptor, second)
          }
        }
      }
      return true
    } catch {
      switch error.errno {
      case .invalidArgument, .noFunction, .notSupported: return false
      default: throw error
      }
    }
  }

  /// Renames unless the new name is taken.
  ///
  /// - Returns: nil where the file system cannot tell: look first, then `rename`. False if the name is taken.
  package func renameIfAbsent(_ name: String, to newName: String) throws(FileError) -> Bool? {
    try renameIfAbsent(name, to: newName, in: self)
  }

  package func renameIfAbsent(
    _ name: String, to newName: String, in target: borrowing Directory
  ) throws(FileError) -> Bool? {
    let targetDescriptor = target.descriptor
    do {
      try files.perform(.renameNoReplace, target.at(newName)) {
        unsafe name.withCString { old in
          unsafe newName.withCString { new in unsafe blob_rename_no_replace(descriptor, old, targetDescriptor, new) }
        }
      }
      return true
    } catch {
      switch error.errno {
      case .fileExists: return false
      case .invalidArgument, .noFunction, .notSupported: return nil
      default: throw error
      }
    }
  }

  /// Gives a file a second name, unless that is taken.
  ///
  /// - Returns: false if the name is taken.
  package func linkIfAbsent(_ name: String, as newName: String) throws(FileError) -> Bool {
    do {
      try files.perform(.link, at(newName)) {
        unsafe name.withCString { old in
          unsafe newName.withCString { new in unsafe linkat(descriptor, old, descriptor, new, 0) }
        }
      }
      return true
    } catch {
      guard error.errno == .fileExists else { throw error }
      return false
    }
  }
}

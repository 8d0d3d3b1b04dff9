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

extension Directory {
  /// A name for `replaceFile`, which no other call gives.
  package static func temporaryName() -> String {
    ".blobcache-" + String(UInt64.random(in: 0 ... .max), radix: 16)
  }

  /// Makes the regular file `name`, or replaces it.
  ///
  /// A process that opens the name finds the whole old file or the whole new one. The new one has the permissions of the
  /// old one, or what the process's mask leaves of 0666.
  ///
  /// - Parameters:
  ///   - temporaryName: the file's until it is whole.
  ///   - write: fills the file.
  /// - Throws: what `write` throws; EEXIST if the name belongs to something else, such as a device or a link, which is
  ///   left alone.
  package func replaceFile(
    _ name: String, by temporaryName: String = Self.temporaryName(), _ write: (borrowing OpenFile) throws -> Void
  ) throws {
    let old = try status(of: name)
    if let old, old.type != .regular { throw FileError(.rename, Location(path, name), .fileExists) }
    // Before it has the old one's permissions, nobody else may open it, and so read later what is written.
    let file = try createFile(temporaryName, permissions: FilePermissions(rawValue: old == nil ? 0o666 : 0o600))
    do {
      if let old { try file.setPermissions(old.permissions) }
      try write(file)
      try file.close()
      try rename(temporaryName, to: name, in: self)
    } catch {
      // The error at hand is the one to report; a file that cannot be unlinked either stays under its own name.
      _ = try? unlink(temporaryName)
      throw error
    }
  }
}

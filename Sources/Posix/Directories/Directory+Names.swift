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

extension Directory {
  /// - Returns: `false` if the file does not exist.
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

  /// Exchanges the names of two files atomically, or returns `false` if the file system does not support it.
  ///
  /// - Throws: ENOENT if either file is missing.
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

  /// Renames a file, or returns `false` if the new name exists, or `nil` if the file system does not support it.
  ///
  /// If the result is `nil`, the caller checks that the new name is free, and then calls `rename`.
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

  /// Gives a file a second name, or returns `false` if that name exists.
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
  package static func temporaryName() -> String {
    ".blobcache-" + String(UInt64.random(in: 0 ... .max), radix: 16)
  }

  /// Creates or atomically replaces the regular file `name`.
  ///
  /// A process that opens the name finds either the complete old file or the complete new one. The new file has the
  /// permissions of the old one, or 0666 as limited by the umask.
  ///
  /// - Throws: Errors of `write`, or EEXIST if the name belongs to something else, such as a device or a link.
  package func replaceFile(
    _ name: String, by temporaryName: String = Self.temporaryName(), _ write: (borrowing OpenFile) throws -> Void
  ) throws {
    let old = try status(of: name)
    if let old, old.type != .regular { throw FileError(.rename, Location(path, name), .fileExists) }
    // Until it has the old permissions, no other user may open the file, and so read it later.
    let file = try createFile(temporaryName, permissions: FilePermissions(rawValue: old == nil ? 0o666 : 0o600))
    do {
      if let old { try file.setPermissions(old.permissions) }
      try write(file)
      try file.close()
      try rename(temporaryName, to: name, in: self)
    } catch {
      // The first error is reported. If the file cannot be unlinked either, it remains under its temporary name.
      _ = try? unlink(temporaryName)
      throw error
    }
  }
}

package import BlobStore
package import SystemPackage

/// The directories that a server serves, from a configuration file and the environment.
package struct ServePlan {
  package struct Directory {
    /// What its paths begin with.
    package let name: String
    package let path: FilePath
    private let settings: CollectionPlan.Directory
    private let served: [ServedField: String]
    private let file: FilePath

    fileprivate init(
      name: String, _ settings: CollectionPlan.Directory, _ served: [ServedField: String], in file: FilePath
    ) {
      self.name = name
      path = settings.path
      self.settings = settings
      self.served = served
      self.file = file
    }

    /// What the file says; nil for nothing.
    package subscript(field: ServedField) -> String? { served[field] }

    /// A mistake in a field that only a server can find.
    package func mistake(in field: ServedField, _ message: String) -> UsageError {
      UsageError("\(file): directories.\"\(path)\".\(field.rawValue): \(message)")
    }

    /// Sets what the file and the environment say of the directory.
    package func configure(_ configuration: inout BlobStore.Configuration) {
      settings.limit(&configuration)
      configuration.access.allowsWorldWritable = settings.allowsWorldWritable
      if let timeToLive = settings.defaultTimeToLive { configuration.expiry.defaultTimeToLive = timeToLive.duration }
      if let naming = settings.naming { configuration.layout.naming = naming }
      if let isFlat = settings.isFlat { configuration.layout.separatesDirectories = !isFlat }
    }

    /// When passes are made; nil if nothing is said.
    package var timing: BlobStore.CollectionTiming? {
      settings.interval == nil ? nil : settings.timing(firstDelay: TimeSpan(seconds: 0))
    }
  }

  /// In the order of their paths.
  package let directories: [Directory]

  /// - Parameter isName: whether a directory may have a name.
  /// - Throws: `UsageError`, naming file and field, for its mistakes; an error of the system's if it cannot be read.
  package init(file path: FilePath, isName: (String) -> Bool) throws {
    let file = try ConfigurationFile(path)
    let plan = try CollectionPlan(directories: [], commandLine: [:], file: file)
    let served = Dictionary(file.directories.values.map { ($0.path, $0.served) }) { first, _ in first }
    var seen: Set<String> = []
    directories = try plan.directories.map { directory in
      let served = served[directory.path] ?? [:]
      let name = served[.name] ?? directory.path.lastComponent?.string ?? ""
      guard isName(name) else {
        throw UsageError(
          "\(path): \(directory.path): \"\(name)\" cannot be a part of an address; give it a name of letters, digits, - and _"
        )
      }
      guard seen.insert(name).inserted else {
        throw UsageError(
          "\(path): \(directory.path): another directory is named \(name) too; give them names that differ")
      }
      return Directory(name: name, directory, served, in: path)
    }
  }
}

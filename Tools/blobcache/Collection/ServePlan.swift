package import BlobStore
package import SystemPackage

/// The directories that a server serves, from a configuration file and the environment.
package struct ServePlan {
  package struct Directory {
    /// The first component of the directory's URL paths.
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

    /// Returns the text of a field, or `nil` if the file does not contain it.
    package subscript(field: ServedField) -> String? { served[field] }

    /// Returns the error for a mistake in a field that only a server can detect.
    package func mistake(in field: ServedField, _ message: String) -> UsageError {
      UsageError("\(file): directories.\"\(path)\".\(field.rawValue): \(message)")
    }

    /// Applies the settings of the file and the environment.
    package func configure(_ configuration: inout BlobStore.Configuration) {
      settings.limit(&configuration)
      configuration.access.allowsWorldWritable = settings.allowsWorldWritable
      if let timeToLive = settings.defaultTimeToLive { configuration.expiry.defaultTimeToLive = timeToLive.duration }
      if let naming = settings.naming { configuration.layout.naming = naming }
      if let isFlat = settings.isFlat { configuration.layout.separatesDirectories = !isFlat }
    }

    /// The timing of the passes, or `nil` if no interval is configured.
    package var timing: BlobStore.CollectionTiming? {
      settings.interval == nil ? nil : settings.timing(firstDelay: TimeSpan(seconds: 0))
    }
  }

  /// The directories in the order of their paths.
  package let directories: [Directory]

  /// - Parameter isName: A closure that returns whether a directory may have a name.
  /// - Throws: `UsageError` with file and field for a mistake, or a system error if the file cannot be read.
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

//! The resources that a broker divides. An allocation is a part of the machine: 1.0 of the CPU is all its cores, 1.0 of the link
//! its whole rate.

/// A resource whose parts tenants hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Cycles of all cores.
    Cpu,
    /// Bytes of the link.
    Link,
    /// Bytes of the disks.
    Disk,
    /// Memory.
    Memory,
    /// A service in a tenant of its own: 1.0 is all of that service. Each service has plans of its own.
    Service,
}

/// Number of resources.
pub const RESOURCES: usize = 5;

/// A part of the machine for each resource, in the order of [`Resource::ALL`].
pub type Parts = [f64; RESOURCES];

impl Resource {
    /// All resources.
    pub const ALL: [Resource; RESOURCES] =
        [Resource::Cpu, Resource::Link, Resource::Disk, Resource::Memory, Resource::Service];

    /// Returns the place in [`Parts`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Link => "link",
            Resource::Disk => "disk",
            Resource::Memory => "memory",
            Resource::Service => "service",
        }
    }
}

/// A set of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ResourceSet(u8);

impl ResourceSet {
    /// Returns the set of the resources in `list`.
    pub fn of(list: &[Resource]) -> ResourceSet {
        ResourceSet(list.iter().fold(0, |set, resource| set | 1 << resource.index()))
    }

    /// Says whether the set holds `resource`.
    pub fn contains(self, resource: Resource) -> bool {
        self.0 & 1 << resource.index() != 0
    }

    /// Returns the number of resources in the set.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Visits the resources in the set, in the order of [`Resource::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Resource> {
        Resource::ALL.into_iter().filter(move |resource| self.contains(*resource))
    }
}

//! The programs of tenants whose image says which: what the machine file says goes before what the image says.

use gyre_contract::boot::{Machine, Program};
use gyre_machine_file::{Description, Forward, HostTenant, Image, Protocol};

use crate::{
    failure::{Failure, Result},
    image::{self, Settings},
    project::Project,
    ui,
};

/// Completes the programs of all tenants with OCI images.
///
/// # Errors
/// When an image cannot be made, or names no program.
pub fn complete(project: &Project, description: &mut Description) -> Result<()> {
    let images = description.images.clone();
    complete_part(project, &images, &mut description.machine, &description.tenants)?;
    description.zones.iter_mut().try_for_each(|zone| complete_part(project, &images, &mut zone.machine, &zone.tenants))
}

fn complete_part(
    project: &Project,
    images: &std::collections::BTreeMap<String, Image>,
    machine: &mut Machine,
    tenants: &[HostTenant],
) -> Result<()> {
    // The system tenant is the first, and the host has no part of it.
    for (tenant, host) in machine.tenants.iter_mut().skip(1).zip(tenants) {
        let Some(image) = images.get(&host.image) else { continue };
        let Some(settings) = image::settings(project, &host.image, image)? else { continue };
        for port in closed(&settings, &host.ports) {
            ui::say(&format!("  {} exposes port {port}: -p HOST:{port}, or `ports`, leads to it", host.name));
        }
        let own = tenant.program.take().unwrap_or_default();
        tenant.program = Some(joined(own, settings.program, &host.name)?);
    }
    Ok(())
}

/// Returns the ports that an image exposes and nothing leads to, as `ports` has them.
fn closed(settings: &Settings, open: &[Forward]) -> Vec<String> {
    let tcp = settings.ports.iter().map(|port| (*port, Protocol::Tcp));
    let udp = settings.udp_ports.iter().map(|port| (*port, Protocol::Udp));
    let is_open = |exposed: &(u16, Protocol)| open.iter().any(|one| (one.guest, one.protocol) == *exposed);
    let words = |(port, protocol): (u16, Protocol)| match protocol {
        Protocol::Tcp => port.to_string(),
        Protocol::Udp => format!("{port}/udp"),
    };
    tcp.chain(udp).filter(|exposed| !is_open(exposed)).map(words).collect()
}

fn joined(own: Program, of_image: Program, tenant: &str) -> Result<Program> {
    let argv = if own.argv.is_empty() { of_image.argv } else { own.argv };
    if argv.is_empty() {
        let help = "its image names no program: set `command` of the tenant";
        return Err(Failure::with_help(format!("tenant `{tenant}` has no program"), help));
    }
    let name = |entry: &String| entry.split('=').next().unwrap_or_default().to_owned();
    let is_own = |entry: &String| own.environment.iter().any(|other| name(other) == name(entry));
    let mut environment: Vec<String> = of_image.environment.into_iter().filter(|entry| !is_own(entry)).collect();
    environment.extend(own.environment);
    let directory = if own.directory.is_empty() { of_image.directory } else { own.directory };
    Ok(Program { argv, environment, directory, user: of_image.user, stop_signal: of_image.stop_signal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_ports_of_both_protocols_are_told_until_something_leads_to_them() {
        let settings = Settings { ports: vec![53, 80], udp_ports: vec![53], ..Settings::default() };
        let closed = |open: &[&str]| {
            closed(&settings, &open.iter().filter_map(|text| Forward::parse(text)).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(closed(&[]), "53 80 53/udp");
        assert_eq!(closed(&["5353:53"]), "80 53/udp");
        assert_eq!(closed(&["5353:53/udp", "8080:80"]), "53");
    }

    #[test]
    fn the_file_goes_before_the_image() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        let of_image = Program {
            argv: texts(&["/bin/server"]),
            environment: texts(&["A=image", "B=image"]),
            directory: "/srv".into(),
            stop_signal: Some(3),
            ..Program::default()
        };
        let own = Program { environment: texts(&["A=file"]), ..Program::default() };
        let both = joined(own, of_image.clone(), "gold").unwrap();
        assert_eq!((both.argv, both.directory.as_str(), both.stop_signal), (texts(&["/bin/server"]), "/srv", Some(3)));
        assert_eq!(both.environment, texts(&["B=image", "A=file"]));
        assert!(joined(Program::default(), Program::default(), "gold").is_err());
    }
}

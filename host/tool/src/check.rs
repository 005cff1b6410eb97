//! `gyre check` and `gyre image`.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf, process::ExitCode};

use gyre_config::{
    boot::Tenant,
    file::{self, Description, FileError, HostTenant, Image, units, words},
    policy::ResourcePolicy,
};

use crate::{
    cli, command, debian,
    failure::{Context as _, Result},
    image, load,
    project::Project,
    stop::Stop,
    ui::{self, Paint, paint},
};

/// Reads a machine file and says its warnings.
///
/// # Errors
/// When the file is wrong.
pub fn read(path: &std::path::Path) -> Result<Description> {
    let description = file::read(path)?;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    check_packages(&description, &text)?;
    for warning in &description.warnings {
        let warning = FileError::warning(path, &text, warning.clone());
        eprintln!("{:?}", miette::Report::new(warning));
    }
    Ok(description)
}

/// Looks the packages of images that are still to be made up in this host's lists: reading those takes a second.
fn check_packages(description: &Description, text: &str) -> Result<()> {
    let project = Project::find().ok();
    let is_made = |(name, of): (&String, &Image)| project.as_ref().is_some_and(|it| image::is_made(it, name, of));
    if description.images.iter().all(|(name, of)| of.packages.is_empty() || is_made((name, of))) {
        return Ok(());
    }
    Ok(debian::names().map_or(Ok(()), |known| description.check_packages(text, &known))?)
}

/// `gyre check FILE`.
///
/// # Errors
/// When the file is wrong.
pub fn check(arguments: &cli::Check) -> Result<ExitCode> {
    let description = read(&arguments.file)?;
    if arguments.json {
        print_json(&description.machine)?;
    } else {
        show(&description);
    }
    Ok(ExitCode::SUCCESS)
}

/// `gyre image FILE [NAME]`.
///
/// # Errors
/// When the file is wrong or an image cannot be made.
pub fn images(arguments: &cli::Image) -> Result<ExitCode> {
    Stop::on_signals()?;
    let project = Project::find()?;
    let description = read(&arguments.file)?;
    let wanted = |name: &String| arguments.name.as_ref().is_none_or(|only| only == name);
    let mut made: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, image) in description.images.iter().filter(|(name, _)| wanted(name)) {
        made.insert(name.clone(), image::build(&project, name, image)?);
    }
    if let Some(name) = arguments.name.as_ref().filter(|_| made.is_empty()) {
        let names = description.images.keys().map(String::as_str);
        let help = file::closest(name, names)
            .map_or_else(|| "gyre check shows what is there".into(), |near| format!("did you mean `{near}`?"));
        return Err(crate::failure::Failure::with_help(
            format!("there is no image `{name}` in {}", arguments.file.display()),
            help,
        ));
    }
    if arguments.json {
        print_json(&made)?;
    } else {
        made.iter().for_each(|(name, path)| println!("{name}  {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// When standard output is closed.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context(|| "cannot write JSON".into())?;
    println!("{text}");
    Ok(())
}

fn show(description: &Description) {
    let machine = &description.machine;
    let rate = machine
        .link
        .rate_bits_per_second
        .map_or("unlimited".to_owned(), |rate| units::show_bits_per_second(rate as f64));
    let cores = if machine.cores == 1 { "1 core".to_owned() } else { format!("{} cores", machine.cores) };
    let name = paint(Paint::Bold, &machine.name);
    println!("{name}: {cores}, {}, link {rate} in each direction", units::show_bytes(machine.memory_bytes));
    let sum: u32 = machine.tenants.iter().skip(1).map(|tenant| tenant.share).sum();
    let mut rows = vec![["tenant", "share", "memory", "address", "ports", "command"].map(str::to_owned).to_vec()];
    let customers = machine.tenants.iter().skip(1).zip(&description.tenants);
    rows.extend(customers.map(|(tenant, host)| row(tenant, host, sum)));
    print!("{}", ui::table(&rows));
    for policy in &machine.resources {
        println!("{}", policy_line(policy));
    }
    for (tenant, load) in description.tenants.iter().filter_map(|tenant| Some((tenant, tenant.load.as_ref()?))) {
        println!("load on {}: {}", tenant.name, load::describe(load));
    }
}

/// A resource's scheduler in the words of the machine file.
fn policy_line(of: &ResourcePolicy) -> String {
    let (resource, policy) = (of.resource.replace('_', "-"), words::policy(&of.policy));
    format!("{resource}: {policy} by {}, batch {}", words::metric(of.metric), of.batch)
}

fn row(tenant: &Tenant, host: &HostTenant, sum: u32) -> Vec<String> {
    let ports: Vec<String> = host.ports.iter().map(|port| format!("{}:{}", port.host, port.guest)).collect();
    let command = tenant.program.as_ref().map_or(String::new(), |program| program.argv.join(" "));
    vec![
        tenant.name.clone(),
        format!("{:.1} %", f64::from(tenant.share) * 100.0 / f64::from(sum.max(1))),
        units::show_bytes(tenant.limits.memory_bytes),
        Ipv4Addr::from(tenant.address).to_string(),
        ports.join(" "),
        command::last_lines(&command, 1),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_policy_is_shown_in_the_words_of_the_machine_file() {
        let text = "[policy.network-write]\npolicy = \"Worst_case_fair\"\nmetric = \"bytes\"\n\
            [image.a]\n[[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"a\"\n";
        let description = file::parse(Path::new("m.toml"), text).unwrap();
        assert_eq!(policy_line(&description.machine.resources[0]), "network-write: worst-case-fair by bytes, batch 1");
    }
}

mod hostile;
mod plant;
mod world;

//! What is checked of the sources and of the tests themselves: the order of the house, the
//! links and pictures of the documentation, and the scripted model server.

mod layers;
mod pictures;
mod support_check;

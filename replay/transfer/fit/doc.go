// Package fit finds the constants of package transfer's models from measured points and
// says how well they hold: residuals, and the error of each point when it is left out.
// It also compares the models of the data files with every measurement in them.
package fit

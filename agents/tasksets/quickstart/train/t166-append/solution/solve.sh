#!/bin/bash
set -e
cd /app
echo beer >> start.txt
echo horse > report.txt
